"""Entries of vLLM-Omni's stage configs that mean nothing here, and why."""

_STREAMS = "stages always stream frame by frame; chunks follow each listener's buffer"
_EXACT = "the codec carries its state, so no frame is decoded twice"
_WIRE = "processes of stages speak over one connection each, which needs no settings"
_FAMILY = "declared by the model's family"
_SAMPLING = "sampling is the checkpoint's and the request's"
_SMALL = "a stage runs on one device; the first of each group is used"
_GRAPHS = "graphs and kernels are chosen at the start"
_CACHE = "keys and values are paged, and prompts that begin alike are shared"
_ADMISSION = "admission follows the playback clock"

WHY_NOT: dict[str, str] = {
    **dict.fromkeys(("async_chunk", "codec_streaming", "stream", "codec_chunk_adaptive"), _STREAMS),
    **dict.fromkeys(
        ("codec_chunk_min_frames", "codec_chunk_safety_margin_ms", "codec_chunk_ramp_divisor"),
        _STREAMS,
    ),
    "codec_chunk_ramp_delta_min": _STREAMS,
    **dict.fromkeys(("codec_left_context_frames", "ref_code_context_frames"), _EXACT),
    **dict.fromkeys(
        ("name", "extra", "edges", "input_connectors", "output_connectors", "shm_threshold_bytes"),
        _WIRE,
    ),
    **dict.fromkeys(
        (
            *("connector_get_sleep_s", "connector_get_max_wait_first_chunk"),
            *("connector_get_max_wait", "max_inflight", "window_size", "defaults"),
        ),
        _WIRE,
    ),
    **dict.fromkeys(
        (
            *("stage_type", "model_arch", "hf_architectures", "engine_output_type", "final_output"),
            *("final_output_type", "is_comprehension", "owns_tokenizer", "execution_type"),
            *("input_sources", "engine_input_source", "custom_process_input_func", "pipeline"),
            *(
                "custom_process_next_stage_input_func",
                "requires_full_payload_input",
                "hf_config_name",
            ),
            *("worker_type", "worker_cls", "scheduler_cls", "model_runner"),
        ),
        _FAMILY,
    ),
    **dict.fromkeys(
        (
            *("default_sampling_params", "subtalker_sampling_params", "silence_ban_frames"),
            "sampling_constraints",
        ),
        _SAMPLING,
    ),
    **dict.fromkeys(
        ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"), _SMALL
    ),
    **dict.fromkeys(
        (
            *("enforce_eager", "compilation_config", "decode_cudagraph_batch_sizes"),
            *("decode_batch_max_size", "code_predictor_prefix_graphs", "async_scheduling"),
        ),
        _GRAPHS,
    ),
    **dict.fromkeys(
        ("enable_prefix_caching", "max_model_len", "enable_chunked_prefill", "block_size"), _CACHE
    ),
    **dict.fromkeys(("max_num_batched_tokens", "active_stream_window"), _ADMISSION),
    "distributed_executor_backend": "give it as --fabric ray or process",
    "platforms": "only NVIDIA GPUs and CPUs are served",
    "trust_remote_code": "give it as --trust-remote-code, if the model brings code of its own",
    "quantization": "weights are computed in bfloat16 or float32",
    "dtype": "weights are computed in bfloat16 or float32",
    "session_mode": "every kind of session is served",
    "duplex_session": "every kind of session is served",
    "custom_voice_dir": "uploaded voices are kept in data.dir",
    "env": "a mapping of names to values was expected",
    "process": "the fabric decides which stages have processes",
    "enabled": "the fabric decides which stages have processes",
}


def why_not(key: str) -> str:
    """Return why an entry means nothing here."""
    return WHY_NOT.get(key, "unknown here")

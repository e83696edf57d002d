"""Chat fields of OpenAI and vLLM that no model here serves."""

from typing import Annotated, Any

from antiphon.api.schemas.field_rules import Meaningless, Unserved
from antiphon.contracts.well_formed import StrictModel

_NO_GRAMMAR = Unserved("Answers follow no grammar.")
_NO_TOOLS = Unserved("No model here calls tools.")
_TEXT_ALONE = Unserved("Answers are sent as text, without the ids of tokens.", (False,))
_NOTHING_KEPT = Meaningless("No chats are kept.")
_OWN_CACHE = Meaningless("Prefixes of prompts are always cached.")
_ONE_TIER = Meaningless("All requests are served alike.")
_NO_MODERATION = Meaningless("No moderation service is called.")
_NO_SPECIALS = Unserved("Answers have no special tokens.", (True,))


class ChatPeerFields(StrictModel):
    """Fields that are accepted without effect, or only with a value that turns them off."""

    tools: Annotated[Any, _NO_TOOLS] = None
    functions: Annotated[Any, _NO_TOOLS] = None
    tool_choice: Annotated[Any, Unserved("No model here calls tools.", ("none", "auto"))] = None
    function_call: Annotated[Any, Unserved("No model here calls tools.", ("none", "auto"))] = None
    parallel_tool_calls: Annotated[bool | None, Meaningless("No model here calls tools.")] = None
    web_search_options: Annotated[Any, Unserved("No model here searches.", empty_is_off=False)] = (
        None
    )
    verbosity: Annotated[Any, Unserved("Ask for a length in a message.", ("medium",))] = None
    thinking_token_budget: Annotated[
        Any, Unserved("Set 'enable_thinking' to false, or 'max_tokens' for all tokens.")
    ] = None
    include_reasoning: Annotated[
        Any, Unserved("Set 'enable_thinking' to false for an answer without thoughts.", (True,))
    ] = None

    metadata: Annotated[dict[str, Any] | None, _NOTHING_KEPT] = None
    store: Annotated[bool | None, _NOTHING_KEPT] = None
    service_tier: Annotated[str | None, _ONE_TIER] = None
    safety_identifier: Annotated[str | None, _NO_MODERATION] = None
    moderation: Annotated[Any, _NO_MODERATION] = None
    prediction: Annotated[
        dict[str, Any] | None, Meaningless("A predicted answer changes its speed alone.")
    ] = None
    prompt_cache_key: Annotated[str | None, _OWN_CACHE] = None
    prompt_cache_options: Annotated[dict[str, Any] | None, _OWN_CACHE] = None
    prompt_cache_retention: Annotated[str | None, _OWN_CACHE] = None

    best_of: Annotated[Any, Unserved("Ask for several answers with 'n'.", (1,))] = None
    use_beam_search: Annotated[Any, Unserved("Tokens are drawn one by one.", (False,))] = None
    length_penalty: Annotated[float | None, Meaningless("Only beam search has a penalty.")] = None
    stop_token_ids: Annotated[Any, Unserved("Send the texts that end the answer in 'stop'.")] = None
    include_stop_str_in_output: Annotated[
        Any, Unserved("An answer ends before its stop string.", (False,))
    ] = None
    skip_special_tokens: Annotated[Any, _NO_SPECIALS] = None
    spaces_between_special_tokens: Annotated[
        bool | None, Meaningless("Answers have no special tokens.")
    ] = None
    truncate_prompt_tokens: Annotated[Any, Unserved("Shorten the messages.")] = None
    truncation_side: Annotated[str | None, Meaningless("Prompts are not truncated.")] = None
    prompt_logprobs: Annotated[Any, Unserved("Ask for those of the answer with 'logprobs'.")] = None
    allowed_token_ids: Annotated[Any, Unserved("Set 'logit_bias' for single tokens.")] = None
    bad_words: Annotated[Any, Unserved("Set 'logit_bias' for single tokens.")] = None
    logits_processors: Annotated[Any, Unserved("Set 'logit_bias' for single tokens.")] = None
    repetition_detection: Annotated[Any, Unserved("Set 'repetition_penalty'.")] = None

    echo: Annotated[Any, Unserved("The answer is the new message alone.", (False,))] = None
    add_generation_prompt: Annotated[Any, Unserved("A new message is written.", (True,))] = None
    continue_final_message: Annotated[Any, Unserved("A new message is written.", (False,))] = None
    add_special_tokens: Annotated[
        Any, Unserved("The checkpoint's template adds special tokens.", (False,))
    ] = None
    documents: Annotated[Any, Unserved("Put documents into a message.")] = None
    chat_template: Annotated[Any, Unserved("The checkpoint's own template is used.")] = None
    media_io_kwargs: Annotated[Any, Unserved("Images are read with the server's limits.")] = None
    mm_processor_kwargs: Annotated[Any, Unserved("The checkpoint's own settings are used.")] = None

    structured_outputs: Annotated[Any, _NO_GRAMMAR] = None
    guided_choice: Annotated[Any, _NO_GRAMMAR] = None
    guided_grammar: Annotated[Any, _NO_GRAMMAR] = None
    guided_json: Annotated[Any, _NO_GRAMMAR] = None
    guided_regex: Annotated[Any, _NO_GRAMMAR] = None

    priority: Annotated[Any, Unserved("All requests have the same priority.", (0,))] = None
    request_id: Annotated[Any, Unserved("Send the id in the header 'X-Request-Id'.")] = None
    return_tokens_as_token_ids: Annotated[Any, _TEXT_ALONE] = None
    return_token_ids: Annotated[Any, _TEXT_ALONE] = None
    return_token_offsets: Annotated[Any, _TEXT_ALONE] = None
    return_prompt_text: Annotated[Any, Unserved("Prompts are not sent back.", (False,))] = None
    return_assistant_tokens_mask: Annotated[Any, _TEXT_ALONE] = None
    cache_salt: Annotated[Any, Unserved("Caches of prompts have no salt.")] = None
    kv_transfer_params: Annotated[Any, Unserved("The server places its caches itself.")] = None
    ec_transfer_params: Annotated[Any, Unserved("The server places its caches itself.")] = None
    vllm_xargs: Annotated[Any, Unserved("Send parameters by their own names.")] = None
    sampling_params_list: Annotated[Any, Unserved("Send parameters by their own names.")] = None

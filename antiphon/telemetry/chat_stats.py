"""Statistics of chat answers, and their metrics."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry

from antiphon.telemetry.metric_maker import MetricMaker
from antiphon.telemetry.stream_stats import RequestStats, outcome_of

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
_INTERVAL_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_RATE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class AnswerStats(RequestStats):
    """Times an answer.

    Attributes:
        first_token_s: Time from the request to the first token; ``None`` before that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_token_s: float | None = None
        self.num_tokens = 0

    def see_token(self) -> None:
        """Note that a token has come."""
        if self.first_token_s is None:
            self.first_token_s = self.elapsed_s
        self.num_tokens += 1

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first one, a second; ``None``: there are none."""
        if self.first_token_s is None or self.num_tokens < 2:
            return None
        duration_s = self.elapsed_s - self.first_token_s
        return (self.num_tokens - 1) / duration_s if duration_s > 0 else None


class ChatMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        ours = MetricMaker(registry, "antiphon_chat_", "model")
        self._active = ours.gauge("active", "Answers that are being written.")
        self._ended = ours.counter("ended", "Answers that ended, by reason.", "reason")
        self._prompt_tokens = ours.counter("prompt_tokens", "Tokens read.")
        self._tokens = ours.counter("tokens", "Tokens written.")
        text = "From the request to the first token of its answer."
        self._first_s = ours.histogram("first_token_seconds", text, _LATENCY_BUCKETS_S)
        text = "Tokens of an answer after its first, a second."
        self._rate = ours.histogram("tokens_per_second", text, _RATE_BUCKETS)
        self._as_vllm = _VllmMetrics(registry)

    @contextmanager
    def observe(self, model: str) -> Generator[AnswerStats, None, None]:
        """Measure an answer; the block reports its tokens and its end."""
        self._active.labels(model).inc()
        with outcome_of(AnswerStats(), partial(self._record, model)) as stats:
            yield stats

    def _record(self, model: str, stats: AnswerStats, reason: str) -> None:
        self._active.labels(model).dec()
        self._ended.labels(model, reason).inc()
        self._prompt_tokens.labels(model).inc(stats.usage.input_tokens)
        self._tokens.labels(model).inc(stats.num_tokens)
        if stats.first_token_s is not None:
            self._first_s.labels(model).observe(stats.first_token_s)
        if (rate := stats.tokens_per_s) is not None:
            self._rate.labels(model).observe(rate)
        self._as_vllm.record(model, stats, reason)


class _VllmMetrics:
    """The same under vLLM's names, for dashboards that know them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        vllm = MetricMaker(registry, "vllm:", "model_name", "engine")
        text = "Answers that were completed."
        self._success = vllm.counter("request_success", text, "finished_reason")
        text = "From a request to its first token."
        self._first_s = vllm.histogram("time_to_first_token_seconds", text, _LATENCY_BUCKETS_S)
        text = "Mean time of a token after the first, of an answer."
        self._token_s = vllm.histogram(
            "request_time_per_output_token_seconds", text, _INTERVAL_BUCKETS_S
        )
        text = "From a request to its end."
        self._end_s = vllm.histogram("e2e_request_latency_seconds", text, _LATENCY_BUCKETS_S)
        text = "Tokens of a prompt."
        self._prompt_tokens = vllm.histogram("request_prompt_tokens", text, _TOKEN_BUCKETS)
        text = "Tokens of an answer."
        self._tokens = vllm.histogram("request_generation_tokens", text, _TOKEN_BUCKETS)

    def record(self, model: str, stats: AnswerStats, reason: str) -> None:
        labels = (model, "chat")
        if stats.first_token_s is not None:
            self._first_s.labels(*labels).observe(stats.first_token_s)
        if (rate := stats.tokens_per_s) is not None:
            self._token_s.labels(*labels).observe(1 / rate)
        if stats.reason is None:
            return
        self._success.labels(*labels, reason).inc()
        self._end_s.labels(*labels).observe(stats.elapsed_s)
        self._prompt_tokens.labels(*labels).observe(stats.usage.input_tokens)
        self._tokens.labels(*labels).observe(stats.usage.output_tokens)

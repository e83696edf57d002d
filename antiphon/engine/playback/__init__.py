"""Playback clock: which frames the codec decodes in a step, by the audio clients have buffered."""

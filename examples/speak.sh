#!/usr/bin/env bash
# curl against a running server: a whole file, a stream that is played while it is made, and events.
# `scripts/serve`, then `examples/speak.sh [URL] ["What to say."]`.
set -euo pipefail
url=${1:-http://127.0.0.1:8000/v1}
text=${2:-"Good morning. The kettle is on, and the bread is still warm."}

speak() {
    curl --fail-with-body --silent --show-error --no-buffer "$url/audio/speech" \
        -H "Content-Type: application/json" -d "$1"
}

body() { # of JSON, with the text quoted as it must be
    python3 -c 'import json, sys; print(json.dumps({"input": sys.argv[1], **json.loads(sys.argv[2])}))' \
        "$text" "$1"
}

speak "$(body '{"response_format": "mp3"}')" >hello.mp3
speak "$(body '{"response_format": "pcm"}')" >hello.pcm # 16-bit samples, 24000 a second; for
# a listener instead: | ffplay -nodisp -autoexit -f s16le -ar 24000 -
speak "$(body '{"response_format": "pcm", "stream_format": "sse"}')" | grep -c "speech.audio.delta"

#!/usr/bin/env bash
# Speech: serves Qwen3-TTS with all stages on one GPU, and writes hello.wav.
#
#   MODEL=Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice PORT=8100 examples/agg_omni_audio.sh
#
# --model and --port may be given too; further arguments go to `antiphon serve`.
set -euo pipefail

MODEL=${MODEL:-Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice}
PORT=${PORT:-8000}
ARGUMENTS=()
while (($#)); do
    case $1 in
    --model) MODEL=${2:?--model needs a value} && shift ;;
    --model=*) MODEL=${1#*=} ;;
    --port) PORT=${2:?--port needs a value} && shift ;;
    --port=*) PORT=${1#*=} ;;
    *) ARGUMENTS+=("$1") ;;
    esac
    shift
done
ADDRESS=http://127.0.0.1:$PORT

antiphon serve "$MODEL" --output-modalities audio --port "$PORT" \
    --default-response-format wav --default-voice Vivian ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
SERVER=$!
trap 'kill "$SERVER" 2>/dev/null || true' EXIT
until curl --silent --fail --output /dev/null "$ADDRESS/ready"; do
    kill -0 "$SERVER" # ends here if the server could not start
    sleep 1
done

curl --fail-with-body "$ADDRESS/v1/audio/speech" --output hello.wav \
    --header 'Content-Type: application/json' \
    --data @- <<REQUEST
{"model": "$MODEL", "input": "The fox runs through fresh snow.", "seed": 42}
REQUEST
echo "hello.wav is written. The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

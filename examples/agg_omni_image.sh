#!/usr/bin/env bash
# Images from text: serves Qwen-Image with all stages on one GPU, and draws an image.
#
#   MODEL=AIDC-AI/Ovis-Image-7B PORT=8100 examples/agg_omni_image.sh
#
# --model and --port may be given too; further arguments go to `antiphon serve`.
set -euo pipefail

MODEL=${MODEL:-Qwen/Qwen-Image}
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

antiphon serve "$MODEL" --output-modalities image --port "$PORT" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
SERVER=$!
trap 'kill "$SERVER" 2>/dev/null || true' EXIT
until curl --silent --fail --output /dev/null "$ADDRESS/ready"; do
    kill -0 "$SERVER" # ends here if the server could not start
    sleep 1
done

curl --fail-with-body "$ADDRESS/v1/images/generations" \
    --header 'Content-Type: application/json' \
    --data @- <<REQUEST
{
  "model": "$MODEL",
  "prompt": "A red fox in fresh snow at dawn",
  "size": "1024x1024",
  "response_format": "url",
  "nvext": {"num_inference_steps": 50, "negative_prompt": " ", "seed": 42}
}
REQUEST
echo
echo "The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

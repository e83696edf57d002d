#!/usr/bin/env bash
# Text: serves Qwen2.5-Omni's language model on one GPU, and answers a question.
#
#   examples/agg_omni.sh --model Qwen/Qwen2.5-Omni-3B --port 8100
#
# --model and --port may be given too; further arguments go to `antiphon serve`.
set -euo pipefail

MODEL=${MODEL:-Qwen/Qwen2.5-Omni-7B}
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

antiphon serve "$MODEL" --output-modalities text --port "$PORT" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
SERVER=$!
trap 'kill "$SERVER" 2>/dev/null || true' EXIT
until curl --silent --fail --output /dev/null "$ADDRESS/ready"; do
    kill -0 "$SERVER" # ends here if the server could not start
    sleep 1
done

curl --fail-with-body "$ADDRESS/v1/chat/completions" \
    --header 'Content-Type: application/json' \
    --data @- <<REQUEST
{
  "model": "$MODEL",
  "messages": [{"role": "user", "content": "What is the capital of France?"}],
  "max_tokens": 50,
  "stream": false
}
REQUEST
echo
echo "The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

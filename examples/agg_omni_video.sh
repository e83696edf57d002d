#!/usr/bin/env bash
# Videos from text: serves Wan 2.1 (1.3B) with all stages on one GPU, and makes a video.
#
#   MODEL=Wan-AI/Wan2.2-TI2V-5B-Diffusers SIZE=1280x704 PORT=8100 examples/agg_omni_video.sh
#
# --model and --port may be given too; further arguments go to `antiphon serve`.
set -euo pipefail

MODEL=${MODEL:-Wan-AI/Wan2.1-T2V-1.3B-Diffusers}
SIZE=${SIZE:-832x480}
LENGTH_S=${LENGTH_S:-4}
STEPS=${STEPS:-40}
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

antiphon serve "$MODEL" --output-modalities video --port "$PORT" --default-video-fps 16 ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
SERVER=$!
trap 'kill "$SERVER" 2>/dev/null || true' EXIT
until curl --silent --fail --output /dev/null "$ADDRESS/ready"; do
    kill -0 "$SERVER" # ends here if the server could not start
    sleep 1
done

curl --fail-with-body "$ADDRESS/v1/videos" \
    --header 'Content-Type: application/json' \
    --data @- <<REQUEST
{
  "model": "$MODEL",
  "prompt": "A red fox runs through fresh snow at dawn",
  "size": "$SIZE",
  "seconds": $LENGTH_S,
  "response_format": "url",
  "nvext": {"fps": 16, "num_inference_steps": $STEPS, "guidance_scale": 5.0, "seed": 42}
}
REQUEST
echo
echo "The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

#!/usr/bin/env bash
# Videos from a first frame: serves Wan 2.2 TI2V (5B) with all stages on one GPU, and animates an
# image.
#
#   IMAGE=https://example.com/fox.jpg examples/agg_omni_i2v.sh
#   MODEL=Wan-AI/Wan2.2-I2V-A14B-Diffusers IMAGE=fox.png examples/agg_omni_i2v.sh
#
# IMAGE is an address or a file; a file is sent as a data URI. --model and
# --port may be given too; further arguments go to `antiphon serve`.
set -euo pipefail

MODEL=${MODEL:-Wan-AI/Wan2.2-TI2V-5B-Diffusers}
SIZE=${SIZE:-auto} # auto: about the model's own, in the shape of the image
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
IMAGE=${IMAGE:?say IMAGE=ADDRESS or IMAGE=FILE}

if [[ -f $IMAGE ]]; then
    case ${IMAGE,,} in
    *.png) TYPE=image/png ;;
    *.webp) TYPE=image/webp ;;
    *) TYPE=image/jpeg ;;
    esac
    IMAGE="data:$TYPE;base64,$(base64 <"$IMAGE" | tr -d '\n')"
fi

antiphon serve "$MODEL" --output-modalities video --port "$PORT" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
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
  "prompt": "The camera moves slowly around it, the light changes",
  "input_reference": "$IMAGE",
  "size": "$SIZE",
  "seconds": $LENGTH_S,
  "response_format": "url",
  "nvext": {"fps": 24, "num_inference_steps": $STEPS, "guidance_scale": 5.0, "seed": 42}
}
REQUEST
echo
echo "The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

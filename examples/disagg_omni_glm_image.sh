#!/usr/bin/env bash
# Images in two parts: serves GLM-Image with the language model that draws an image's codes on one
# GPU, and text encoder, diffusion transformer and VAE on another, and draws an image. Each part is a
# process of its own; an image takes a few kilobytes of codes from one to the other.
#
#   PRIOR_DEVICE=cuda:2 DIFFUSION_DEVICE=cuda:3 examples/disagg_omni_glm_image.sh --port 8100
#
# --model and --port may be given too; further arguments go to `antiphon serve`. On two hosts of a Ray cluster, which have these labels:
#
#   antiphon serve zai-org/GLM-Image --output-modalities image --placement '{fabric: ray,
#     defaults: {gpus: 0.3, labels: {part: diffusion}},
#     stages: {prior: {gpus: 1, labels: {part: prior}}}}'
set -euo pipefail

MODEL=${MODEL:-zai-org/GLM-Image}
PRIOR_DEVICE=${PRIOR_DEVICE:-cuda:0}
DIFFUSION_DEVICE=${DIFFUSION_DEVICE:-cuda:1}
SIZE=${SIZE:-1024x1024}
STEPS=${STEPS:-50}
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

antiphon serve "$MODEL" --output-modalities image --port "$PORT" --placement "{
  fabric: process,
  defaults: {devices: '$DIFFUSION_DEVICE'},
  stages: {prior: {devices: '$PRIOR_DEVICE', environment: {PART: prior}}}
}" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} &
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
  "prompt": "A shop window at night; a neon sign above it says 'OPEN LATE'",
  "size": "$SIZE",
  "response_format": "url",
  "num_inference_steps": $STEPS,
  "seed": 42
}
REQUEST
echo
echo "The server goes on at $ADDRESS; press Ctrl-C to stop it."
wait "$SERVER"

// Heads of queries and keys, which a warp norms and rotates: a lane has dimensions 2l, 2l + 1, and those half a head
// further.

constexpr int HEAD_DIM = 128;
constexpr int HALF = HEAD_DIM / 2;

// What a head is normed and rotated by, of a lane's dimensions; cosines and sines of both halves are alike.
struct Turn {
    u32 weights[2], cosine, sine;
};

DEVICE void norm_and_rotate(u32 (&pairs)[2], const Turn& turn, float epsilon, bool is_normed = true) {
    float head[4] = {low(pairs[0]), high(pairs[0]), low(pairs[1]), high(pairs[1])};
    if (is_normed) {
        float square = 0.f;
#pragma unroll
        for (int i = 0; i < 4; i++) square += head[i] * head[i];
        const float scale = rsqrtf(warp_sum(square) / HEAD_DIM + epsilon);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float by = i % 2 ? high(turn.weights[i / 2]) : low(turn.weights[i / 2]);
            head[i] = rounded(rounded(head[i] * scale) * by);
        }
    }
    const float c[2] = {low(turn.cosine), high(turn.cosine)}, s[2] = {low(turn.sine), high(turn.sine)};
    float first[2], second[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        first[i] = rounded(head[i] * c[i]) - rounded(head[2 + i] * s[i]);
        second[i] = rounded(head[2 + i] * c[i]) + rounded(head[i] * s[i]);
    }
    pairs[0] = packed(first[0], first[1]);
    pairs[1] = packed(second[0], second[1]);
}

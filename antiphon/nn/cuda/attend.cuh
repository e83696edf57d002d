// Attention of one row and one head of keys and values, by four warps of a block that keeps them for the
// whole frame.

constexpr int MAX_POSITIONS = 16;
constexpr int KEY_STRIDE = HEAD_DIM + 8;  // so that positions are in other banks
constexpr int GROUP = 2;                  // heads of queries to one of keys and values
constexpr int ATTENDING = 4;              // warps

struct KeptHeads {
    u16 keys[LAYERS][MAX_POSITIONS][KEY_STRIDE];
    u16 values[LAYERS][MAX_POSITIONS][HEAD_DIM];
    u16 queries[GROUP][KEY_STRIDE];
};

struct Rotary {
    const u16* cosines;  // [positions, HEAD_DIM], halves alike
    const u16* sines;
};

DEVICE Turn turn_of(const u16* weight, Rotary rotary, int position) {
    const int lane = threadIdx.x % 32;
    const i64 turn = static_cast<i64>(position) * HALF + lane;
    return {{load_pair(weight, lane), load_pair(weight, HALF / 2 + lane)},
            load_pair(rotary.cosines, turn),
            load_pair(rotary.sines, turn)};
}

// Weights of the positions; lane q below four has those of 2q, 2q + 1, 8 + 2q and 9 + 2q. Returns their sum.
//
// The query is the first row of an operand whose other rows are nothing: their results are not looked at.
DEVICE float weigh(float (&weights)[4], const u16* query, const u16 (*keys)[KEY_STRIDE], int position) {
    const int lane = threadIdx.x % 32, row = lane / 4, q = lane % 4;
    float scores[MAX_POSITIONS / 8][4] = {};
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        const u32* pairs = reinterpret_cast<const u32*>(query) + step * 8 + q;
        const u32 first = row == 0 ? pairs[0] : 0, second = row == 0 ? pairs[4] : 0;
#pragma unroll
        for (int tile = 0; tile < MAX_POSITIONS / 8; tile++) {
            const u32* key = reinterpret_cast<const u32*>(keys[tile * 8 + row]) + step * 8 + q;
            multiply(scores[tile], first, 0, second, 0, key[0], key[4]);
        }
    }
    float largest = -INFINITE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool is_there = i / 2 * 8 + 2 * q + i % 2 <= position;
        weights[i] = is_there ? scores[i / 2][i % 2] * 0.08838834764831845f : -INFINITE;  // 128 ** -0.5
        largest = fmaxf(largest, weights[i]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) total += weights[i] = __expf(weights[i] - largest);
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    return __shfl_sync(~0u, total, 0);
}

// Take a row's new position, keep its keys and values, and attend with it if that is wanted.
//
// `heads` are packets of pairs of a row's queries, keys and values.
DEVICE void attend(KeptHeads& kept, const u64* heads, u32 mark, int kv_head, int layer, int position,
                   const u16* norms, Rotary rotary, float epsilon, bool is_wanted, u64* attended,
                   int column) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head =
        warp < GROUP ? kv_head * GROUP + warp : NUM_HEADS + (warp - GROUP) * NUM_KV_HEADS + kv_head;
    const Turn turn = turn_of(norms + (warp < GROUP ? 0 : HEAD_DIM), rotary, position);  // before it waits
    u32 pairs[2];
    take_apart(heads + head * HALF + lane, HALF / 2, mark, pairs[0], pairs[1]);
    __syncwarp();
    u16* target = kept.values[layer][position];
    if (warp < GROUP + 1) {
        norm_and_rotate(pairs, turn, epsilon);
        target = warp < GROUP ? kept.queries[warp] : kept.keys[layer][position];
    }
    reinterpret_cast<u32*>(target)[lane] = pairs[0];
    reinterpret_cast<u32*>(target)[HALF / 2 + lane] = pairs[1];
    wait_threads(2, ATTENDING * 32);
    if (!is_wanted) return;
    const int own = warp % GROUP, part = warp / GROUP;
    float weights[4], first = 0.f, second = 0.f;
    const float total = weigh(weights, kept.queries[own], kept.keys[layer], position);
#pragma unroll
    for (int at = 0; at < MAX_POSITIONS; at++) {
        const float by = __shfl_sync(~0u, weights[at / 8 * 2 + at % 2], at % 8 / 2);
        u32 value = reinterpret_cast<const u32*>(kept.values[layer][at])[part * (HALF / 2) + lane];
        if (at > position) value = 0;  // there may be anything
        first += by * low(value);
        second += by * high(value);
    }
    const int place = (kv_head * GROUP + own) * HEAD_DIM + part * HALF + 2 * lane;
    put(input_place(attended, place, column), packed(__fdividef(first, total), __fdividef(second, total)),
        mark);
}

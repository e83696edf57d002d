// The draw of a code out of a row's logits, by all threads of one block; as antiphon.nn.kernels.sampling
// draws.

constexpr int EACH = VOCAB / NUM_THREADS;  // logits of a thread
static_assert(EACH == 4, "a thread takes two packets of two logits");

struct Counts {
    u32 some, others;
};

struct Drawing {
    Counts counts[2][NUM_WARPS];
    float numbers[2][NUM_WARPS];
    u32 highest[NUM_WARPS], tokens[NUM_WARPS];
};

struct Parameters {
    float temperature, top_p;
    int top_k;
};

// Add a number up over the threads; `turn` alternates from one sum to the next.
DEVICE float block_sum(Drawing& drawing, float number, int turn) {
    number = warp_sum(number);
    if (threadIdx.x % 32 == 0) drawing.numbers[turn][threadIdx.x / 32] = number;
    wait_threads(1, NUM_THREADS);
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < NUM_WARPS; i++) sum += drawing.numbers[turn][i];
    return sum;
}
DEVICE float block_max(Drawing& drawing, float number, int turn) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) number = fmaxf(number, __shfl_xor_sync(~0u, number, step));
    if (threadIdx.x % 32 == 0) drawing.numbers[turn][threadIdx.x / 32] = number;
    wait_threads(1, NUM_THREADS);
    float largest = -INFINITE;
#pragma unroll
    for (int i = 0; i < NUM_WARPS; i++) largest = fmaxf(largest, drawing.numbers[turn][i]);
    return largest;
}
// Add up two pairs of counts, each below 2**15.
DEVICE Counts block_counts(Drawing& drawing, Counts own, int turn) {
    const u32 some = __reduce_add_sync(~0u, own.some), others = __reduce_add_sync(~0u, own.others);
    if (threadIdx.x % 32 == 0) drawing.counts[turn][threadIdx.x / 32] = {some, others};
    wait_threads(1, NUM_THREADS);
    const Counts warp = drawing.counts[turn][threadIdx.x % NUM_WARPS];  // of each warp, in two lanes
    return {__reduce_add_sync(~0u, warp.some) / 2, __reduce_add_sync(~0u, warp.others) / 2};
}

// The order from which on top_k logits are, or more if some of them are alike.
DEVICE u32 order_of_kth(Drawing& drawing, const u32 (&orders)[EACH], u32 num_kept, u32 num_bad,
                        bool& is_bad) {
    u32 smallest = 0;
#pragma unroll 1
    for (int step = 0; step < 8; step++) {
        const u32 unit = 1u << (14 - 2 * step);
        Counts own = {0, num_bad << 16};
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            own.some += orders[i] >= smallest + unit;
            own.some += static_cast<u32>(orders[i] >= smallest + 2 * unit) << 16;
            own.others += orders[i] >= smallest + 3 * unit;
        }
        const Counts all = block_counts(drawing, own, step % 2);
        const u32 counts[3] = {all.some & 0xFFFF, all.some >> 16, all.others & 0xFFFF};
        is_bad = all.others >> 16 > 0;
        u32 found = 0;
#pragma unroll
        for (int i = 0; i < 3; i++)
            if (counts[i] >= num_kept) {
                found = counts[i];
                smallest += unit;
            }
        if (found == num_kept) break;  // these are they
    }
    return smallest;
}

// The order from which on codes hold a share of the probability of those that are kept.
DEVICE u32 order_of_share(Drawing& drawing, const u32 (&orders)[EACH], const float (&scores)[EACH],
                          u32 smallest_kept, float share) {
    float largest = -INFINITE;
    u32 last = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (orders[i] >= smallest_kept) {
            largest = fmaxf(largest, scores[i]);
            last = max(last, orders[i]);
        }
    largest = block_max(drawing, largest, 0);
    last = static_cast<u32>(block_max(drawing, static_cast<float>(last), 1));
    float weights[EACH], sum = 0.f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        weights[i] = orders[i] >= smallest_kept ? expf(scores[i] - largest) : 0.f;
        sum += weights[i];
    }
    const float dropped = (1.f - share) * block_sum(drawing, sum, 0);
    u32 smallest = 0;
    int turn = 1;
#pragma unroll 1
    for (int step = 0; step < 8; step++) {
        const u32 unit = 1u << (14 - 2 * step), base = smallest;
        for (u32 steps = 1; steps < 4; steps++) {
            float below = 0.f;
#pragma unroll
            for (int i = 0; i < EACH; i++) below += orders[i] < base + steps * unit ? weights[i] : 0.f;
            below = block_sum(drawing, below, turn);
            turn ^= 1;
            if (below <= dropped) smallest += unit;
        }
    }
    return min(smallest, last);
}

// Integers ordered as numbers are, none of which is zero, and back.
DEVICE u32 order_of(float number) {
    const u32 bits = __float_as_uint(number);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
DEVICE float number_of(u32 order) {
    return __uint_as_float(order & 0x80000000u ? order & 0x7FFFFFFFu : ~order);
}

// Of the tokens of a warp's lanes, the first one with the highest score.
DEVICE void choose(u32& highest, u32& token) {
    const u32 own = highest;
    highest = __reduce_max_sync(~0u, own);
    token = __reduce_min_sync(~0u, own == highest ? token : ~0u);
}

// Draw a code; its score with noise is written, or NaN if a logit is no number.
DEVICE u32 draw(Drawing& drawing, const u64* logits, u32 mark, const float* noise, Parameters how,
                float& best) {
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const float4 gumbel = *reinterpret_cast<const float4*>(noise + thread * EACH);
    const float noises[EACH] = {gumbel.x, gumbel.y, gumbel.z, gumbel.w};
    u32 pairs[2];
    take_two(logits + thread * 2, mark, pairs[0], pairs[1]);
    const bool is_greedy = how.temperature == 0.f;
    float scores[EACH];
    u32 orders[EACH];
    u32 num_bad = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const float logit = (i % 2 ? high(pairs[i / 2]) : low(pairs[i / 2])) + 0.f;  // makes one of two zeros
        const u32 bits = __float_as_uint(logit) >> 16;
        num_bad += logit != logit;
        orders[i] = bits & 0x8000u ? bits ^ 0xFFFFu : bits | 0x8000u;
        scores[i] = __fdiv_rn(logit, is_greedy ? 1.f : how.temperature);
    }
    bool is_bad;
    u32 smallest = order_of_kth(drawing, orders, how.top_k, num_bad, is_bad);
    if (how.top_p < 1.f)
        smallest = max(smallest, order_of_share(drawing, orders, scores, smallest, how.top_p));
    u32 highest = 0, token = thread * EACH;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 order = orders[i] >= smallest ? order_of(scores[i] + (is_greedy ? 0.f : noises[i])) : 0;
        if (order > highest) highest = order, token = thread * EACH + i;
    }
    choose(highest, token);
    if (lane == 0) drawing.highest[warp] = highest, drawing.tokens[warp] = token;
    wait_threads(1, NUM_THREADS);
    highest = drawing.highest[lane % NUM_WARPS], token = drawing.tokens[lane % NUM_WARPS];
    choose(highest, token);
    best = is_bad ? __uint_as_float(0x7FC00000u) : number_of(highest);
    return token;
}

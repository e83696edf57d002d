// Attention of one new position a row over paged keys and values.
//
// A block has one row, one head of keys and values with its group of queries, and one split of positions. Its warps take
// tiles of 16 positions in turn, each with a softmax of its own, and join them at the end. Keys and values go from memory
// to the registers of matrix instructions; the order of dimensions within a product is chosen for wide loads.
//
// What other kernels have written is read past the L1 cache, which may hold what was there before. Of a tile that is
// not full the last position is read again: nothing after it has been written.

constexpr int WARPS = 4, NUM_THREADS = 32 * WARPS, RESIDENT = 4;
constexpr int TILE = 16, SPLIT_TILES = SPLIT_POSITIONS / TILE;
constexpr int NUM_HEADS = KV_HEADS * GROUP, WIDTH = (NUM_HEADS + 2 * KV_HEADS) * HEAD_DIM;
constexpr int STRIDE = KV_HEADS * HEAD_DIM;  // of positions
constexpr int UNITS = GROUP + 2;             // heads of the new position: queries, key, value
constexpr int WARP_UNITS = (UNITS + WARPS - 1) / WARPS;
extern "C" __device__ constexpr int decode_attention_shared_bytes = 0;  // beside what it declares
static_assert(GROUP <= 8, "queries are columns of one matrix instruction");
static_assert(BLOCK_POSITIONS % TILE == 0 && SPLIT_POSITIONS % TILE == 0, "a tile is in one block and one split");

struct Arguments {
    const u16 *joined, *query_weight, *key_weight, *cosines, *sines;
    u16* kept;
    const int* table;
    const i64 *slots, *positions;
    void* parts;
    float* weights;
    i64 kind_stride;
    float epsilon;
    int num_rotations, table_stride, num_splits, loads_early;
};

DEVICE uint4 load_far(const u16* place) { return __ldcg(reinterpret_cast<const uint4*>(place)); }
DEVICE u32 load_pair_far(const u16* place) { return __ldcg(reinterpret_cast<const u32*>(place)); }
DEVICE void prefetch(const u16* place) { asm volatile("prefetch.global.L2 [%0];" ::"l"(place)); }
DEVICE float power(float number) {  // of two
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(number));
    return result;
}

struct Shared {
    __align__(16) u16 heads[UNITS][HEAD_DIM];  // queries, key, value
    __align__(16) float sums[WARPS][GROUP][HEAD_DIM];
    float largest[WARPS][GROUP], total[WARPS][GROUP];
};

// Lane 4g + q has keys of positions g, g + 8, and values of positions 2q, 2q + 1, 2q + 8, 2q + 9.
struct Tile {
    uint4 keys[2][4], values[4][2];

    static DEVICE int value_position(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 2 * 8; }

    // Of positions of which `count` were written; if none, any numbers.
    DEVICE void load_keys(const u16* place, int lane, int count) {
        place += lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const u16* key = place + max(min(lane / 4 + 8 * half, count - 1), 0) * STRIDE;
#pragma unroll
            for (int c = 0; c < 4; c++) keys[half][c] = load_far(key + c * 32);
        }
    }
    DEVICE void load_values(const u16* place, int lane, int count) {
        place += lane / 4 * 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u16* value = place + max(min(value_position(lane, i), count - 1), 0) * STRIDE;
#pragma unroll
            for (int half = 0; half < 2; half++) values[i][half] = load_far(value + half * HALF);
        }
    }
    // Scores of head g and positions 2q, 2q + 1, 2q + 8, 2q + 9, in powers of two.
    DEVICE void score(const uint4 (&query)[4], float (&scores)[4]) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sums[2][4] = {};
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const uint4 key = keys[half][c], by = query[c];
                multiply(sums[0], by.x, by.y, by.z, by.w, key.x, key.y);  // rows below eight
                multiply(sums[1], by.x, by.y, by.z, by.w, key.z, key.w);  // rows above
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
                scores[2 * half + i] = (sums[0][i] + sums[1][2 + i]) * (0.08838834764831845f * 1.4426950408889634f);
        }
    }
    // Put the new position after the first `count`, and in the place of those after it.
    DEVICE void put_new(const u16* key, const u16* value, int lane, int count) {
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (lane / 4 + 8 * half >= count)
                    keys[half][c] = *reinterpret_cast<const uint4*>(key + c * 32 + lane % 4 * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (value_position(lane, i) >= count)
                    values[i][half] = *reinterpret_cast<const uint4*>(value + half * HALF + lane / 4 * 8);
    }
};

// Lane 4g + q has the largest score and the total of head g, in powers of two, and sums of heads 2q and 2q + 1.
struct Softmax {
    float largest = -1e30f, total = 0.f, sums[8][4] = {};

    // Take in scores of the first `count` positions; the factor of their values is made.
    DEVICE void weigh(float (&scores)[4], int lane, int count, u32 (&factor)[2]) {
        float newest = largest;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (Tile::value_position(lane, i) >= count) scores[i] = -INFINITE;
            newest = fmaxf(newest, scores[i]);
        }
        newest = fmaxf(newest, __shfl_xor_sync(~0u, newest, 1));
        newest = fmaxf(newest, __shfl_xor_sync(~0u, newest, 2));
        const float shrink = power(largest - newest);
        largest = newest;
#pragma unroll
        for (int i = 0; i < 4; i++) scores[i] = power(scores[i] - newest);
        total = total * shrink + ((scores[0] + scores[1]) + (scores[2] + scores[3]));
        factor[0] = packed(scores[0], scores[1]), factor[1] = packed(scores[2], scores[3]);
        const int head = lane % 4 * 2;
        const float by[2] = {__shfl_sync(~0u, shrink, head * 4), __shfl_sync(~0u, shrink, head * 4 + 4)};
#pragma unroll
        for (int t = 0; t < 8; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[t][i] *= by[i % 2];
    }
    DEVICE void add_values(const Tile& tile, const u32 (&factor)[2]) {
#define PAIR(t, i, half, part) __byte_perm(tile.values[i][half].part, tile.values[i + 1][half].part, t % 2 ? 0x7632 : 0x5410)
#define ADD(t, part) \
    multiply(sums[t], PAIR(t, 0, 0, part), PAIR(t, 0, 1, part), PAIR(t, 2, 0, part), PAIR(t, 2, 1, part), factor[0], factor[1])
        ADD(0, x), ADD(1, x), ADD(2, y), ADD(3, y), ADD(4, z), ADD(5, z), ADD(6, w), ADD(7, w);
    }
    DEVICE void share(Shared& shared, int warp, int lane) {
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const int g = lane / 4;
        if (g < GROUP && lane % 4 == 0) shared.largest[warp][g] = largest, shared.total[warp][g] = total;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int head = lane % 4 * 2 + i;
            if (head >= GROUP) break;
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int t = 0; t < 8; t += 4)
                    *reinterpret_cast<float4*>(&shared.sums[warp][head][half * HALF + g * 8 + t]) =
                        make_float4(sums[t][2 * half + i], sums[t + 1][2 * half + i], sums[t + 2][2 * half + i],
                                    sums[t + 3][2 * half + i]);
        }
    }
};

// Join two dimensions of a head's sums by all warps.
DEVICE void join(const Arguments& given, const Shared& shared, int head, int dim, i64 place) {
    float largest = shared.largest[0][head], total = 0.f, first = 0.f, second = 0.f;
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) largest = fmaxf(largest, shared.largest[warp][head]);
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        const float share = power(shared.largest[warp][head] - largest);
        const float2 sums = *reinterpret_cast<const float2*>(&shared.sums[warp][head][dim]);
        total += share * shared.total[warp][head];
        first += share * sums.x, second += share * sums.y;
    }
    const float by = 1.f / total;
    first *= by, second *= by;
    if (given.num_splits == 1) {
        *reinterpret_cast<u32*>(static_cast<u16*>(given.parts) + place * HEAD_DIM + dim) = packed(first, second);
    } else {
        *reinterpret_cast<float2*>(static_cast<float*>(given.parts) + place * HEAD_DIM + dim) = make_float2(first, second);
        if (dim == 0) given.weights[place] = (largest + __log2f(total)) * 0.6931471805599453f;
    }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, RESIDENT) decode_attention(const __grid_constant__ Arguments given) {
    __shared__ Shared shared;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int kv_head = blockIdx.x % KV_HEADS, split = blockIdx.x / KV_HEADS % given.num_splits;
    const int row = blockIdx.x / KV_HEADS / given.num_splits, first = static_cast<int>(given.positions[row]);
    const int* table = given.table + given.slots[row] * given.table_stride;
    const int own_tile = first / TILE, end = min(own_tile + 1, (split + 1) * SPLIT_TILES);
    u16* const kept = given.kept + kv_head * HEAD_DIM;
    const auto place_of = [&](int position) {
        const i64 block = table[position / BLOCK_POSITIONS];
        return kept + (block * BLOCK_POSITIONS + position % BLOCK_POSITIONS) * STRIDE;
    };
    int number = split * SPLIT_TILES + warp;
    Tile tile;
    const u16* place = nullptr;
    const auto load = [&] {
        place = place_of(number * TILE);
        tile.load_keys(place, lane, first - number * TILE);
        tile.load_values(place + given.kind_stride, lane, first - number * TILE);
    };
    if (given.loads_early && number < end) {
        load();
        for (int later = number + WARPS; later < end; later += WARPS) {
            const int position = later * TILE + lane % TILE;
            if (position >= first) continue;
            const u16* far = place_of(position) + lane / TILE * given.kind_stride;
            prefetch(far), prefetch(far + HALF);
        }
    }
    const bool is_normed = given.query_weight != nullptr;
    Turn turns[WARP_UNITS];
#pragma unroll
    for (int i = 0; i < WARP_UNITS; i++) {  // constant, hence before the wait
        const u16* weight = warp + i * WARPS < GROUP ? given.query_weight : given.key_weight;
        if (is_normed) turns[i].weights[0] = load_pair(weight, lane), turns[i].weights[1] = load_pair(weight, 32 + lane);
    }
    await_others();
    if (end <= split * SPLIT_TILES) return;
    u32 pairs[WARP_UNITS][2];
    const i64 angle = static_cast<i64>(row % given.num_rotations) * HEAD_DIM + 2 * lane;
    const u32 cosine = load_pair_far(given.cosines + angle), sine = load_pair_far(given.sines + angle);
#pragma unroll
    for (int i = 0; i < WARP_UNITS; i++) {
        const int unit = warp + i * WARPS;
        if (unit >= UNITS) break;
        const int head = unit < GROUP ? kv_head * GROUP + unit : NUM_HEADS + (unit - GROUP) * KV_HEADS + kv_head;
        const u16* source = given.joined + static_cast<i64>(row) * WIDTH + head * HEAD_DIM + 2 * lane;
        pairs[i][0] = load_pair_far(source), pairs[i][1] = load_pair_far(source + HALF);
    }
    if (!given.loads_early && number < end) load();
#pragma unroll
    for (int i = 0; i < WARP_UNITS; i++) {
        const int unit = warp + i * WARPS;
        if (unit >= UNITS) break;
        turns[i].cosine = cosine, turns[i].sine = sine;
        if (unit <= GROUP) norm_and_rotate(pairs[i], turns[i], given.epsilon, is_normed);
        u32* head = reinterpret_cast<u32*>(shared.heads[unit]) + lane;
        head[0] = pairs[i][0], head[32] = pairs[i][1];
        if (unit >= GROUP && own_tile < end) {  // kept by the split that it is in
            u32* far = reinterpret_cast<u32*>(place_of(first) + (unit - GROUP) * given.kind_stride) + lane;
            far[0] = pairs[i][0], far[32] = pairs[i][1];
        }
    }
    __syncthreads();
    uint4 query[4] = {};
    if (lane / 4 < GROUP) {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint4 eight = *reinterpret_cast<const uint4*>(&shared.heads[lane / 4][c * 32 + lane % 4 * 8]);
            query[c] = make_uint4(eight.x, eight.z, eight.y, eight.w);
        }
    }
    Softmax softmax;
#pragma unroll 1
    for (; number < end; number += WARPS) {
        const int count = first - number * TILE;  // positions before the new one
        if (number == own_tile) tile.put_new(shared.heads[GROUP], shared.heads[GROUP + 1], lane, count);
        float scores[4];
        u32 factor[2];
        tile.score(query, scores);
        const bool has_more = number + WARPS < end;
        if (has_more) place = place_of((number + WARPS) * TILE), tile.load_keys(place, lane, count - WARPS * TILE);
        softmax.weigh(scores, lane, count + 1, factor);
        softmax.add_values(tile, factor);
        if (has_more) tile.load_values(place + given.kind_stride, lane, count - WARPS * TILE);
    }
    softmax.share(shared, warp, lane);
    __syncthreads();
    const i64 target = (static_cast<i64>(row) * NUM_HEADS + kv_head * GROUP) * given.num_splits + split;
#pragma unroll
    for (int pair = threadIdx.x; pair < GROUP * HALF; pair += NUM_THREADS) {
        const int head = pair / HALF;
        join(given, shared, head, pair % HALF * 2, target + head * given.num_splits);
    }
}

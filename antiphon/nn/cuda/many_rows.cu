// Product of tiles of up to 64 rows on `wgmma`, fused with the norm before it and the gate or the sum after it.
//
// A block has N weights of each input (of a gated product, halves of both), and a part of the inputs. One lane copies
// weights (TMA), before the kernel before has ended; one copies rows; warpgroups multiply them, and share the steps if
// there are several. Blocks of a cluster send their sums to the one that ends these rows, which adds them in one order,
// so that a row's result does not depend on the other rows.

constexpr int ROWS = 64;  // of a matrix instruction
constexpr int NUM_THREADS = 128 * (GROUPS + 1);
constexpr int CHAINS = N <= 48 ? 4 : 2;  // products in flight, with sums of their own: one waits for the sums that it adds to
constexpr int STEPS = INPUTS / SPLITS / 64 / CHUNKS;
constexpr int ROW_BYTES = CHUNKS * ROWS * 128, WEIGHT_BYTES = CHUNKS * N * 128;  // of a step
constexpr int BLOCK_OUTPUTS = GATED ? N / 2 : N;
constexpr int SHARED = BLOCK_OUTPUTS % 32 == 0 ? 32 : BLOCK_OUTPUTS % 16 == 0 ? 16 : 8;  // outputs that a warp ends
constexpr int EIGHTS = SHARED / 8;
constexpr int SOURCES = SPLITS * GROUPS;
constexpr int STRIPS = 4 / SPLITS;  // of 16 rows, that a block ends
constexpr int SUM_BYTES = SOURCES * STRIPS * N * 64;
constexpr int UNITS = STRIPS * (BLOCK_OUTPUTS / SHARED);  // that warps end
static_assert(INPUTS % (SPLITS * CHUNKS * 64) == 0 && N % 8 == 0 && OUTPUTS % BLOCK_OUTPUTS == 0, "sizes");
// Parity distinguishes two successive turns of a barrier, no more: a group that misses a turn of a stage would take its
// bytes for those of the next turn. So a stage is always of the same group.
static_assert((ROW_STAGES % GROUPS == 0 || ROW_STAGES >= STEPS) && (WEIGHT_STAGES % GROUPS == 0 || WEIGHT_STAGES >= STEPS), "turns");
// A warpgroup gives a stage back when it has asked for the products of its next one.
static_assert((ROW_STAGES >= 2 * GROUPS || ROW_STAGES >= STEPS) && (WEIGHT_STAGES >= 2 * GROUPS || WEIGHT_STAGES >= STEPS), "stages");
static_assert(STEPS >= GROUPS && SOURCES > 1 && (!ADDED || UNITS <= 4 * GROUPS), "shares");

struct Layout {
    static const int rows = WEIGHT_STAGES * WEIGHT_BYTES;
    static const int sums = rows + ROW_STAGES * ROW_BYTES;
    static const int divisors = sums + SUM_BYTES;
    static const int barriers = divisors + ROWS * 4;
    static const int end = barriers + (2 * (WEIGHT_STAGES + ROW_STAGES) + 1) * 8;
};
extern "C" __device__ constexpr int many_rows_shared_bytes = Layout::end;

struct Arguments {
    TensorMap inputs, weight;
    const float* squares;
    const u16 *states, *next_norm;  // the latter or the bias
    u16 *result, *scaled;
    float* parts;
    float epsilon;
    int num_rows, num_parts, part_stride;
};

DEVICE int first_row() { return blockIdx.y * ROWS; }
DEVICE void copy_rows(u32 target, const TensorMap& map, int chunk, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, %3}], [%4];" ::"r"(target),
        "l"(&map), "r"(first_row()), "r"(chunk), "r"(barrier)
        : "memory");
}
DEVICE void copy_weights(u32 target, const TensorMap& map, int output, int chunk, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, 0, %3}], [%4];" ::"r"(target),
        "l"(&map), "r"(output), "r"(chunk), "r"(barrier)
        : "memory");
}
// Of a tile of 64 inputs: rows of 128 swizzled bytes, groups of eight rows one after the other.
DEVICE u64 descriptor(u32 address) { return (u64)((address >> 4) & 0x3FFF) | (1ull << 16) | (64ull << 32) | (1ull << 62); }
DEVICE void await_cluster(u32 barrier) {  // the first time that other blocks' bytes have arrived
    asm volatile(
        "{.reg .pred p;\n"
        "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n"
        "@!p bra AGAIN;}" ::"r"(barrier)
        : "memory");
}
GENERATED_PRODUCT

struct Stage {  // of a ring
    int index;
    u32 parity;
    template <int NUM_STAGES>
    DEVICE void advance(int steps) {
        index += steps;
        if (index >= NUM_STAGES) index -= NUM_STAGES, parity ^= 1;
    }
};

// Of 16 rows, by a warp; eight lanes a row.
DEVICE void load_divisors(const Arguments& given, float* divisors, int strip) {
    const int lane = threadIdx.x % 32, local = strip * 16 + lane / 8;
    float sums[4] = {};
#pragma unroll 4
    for (int part = lane % 8; part < given.num_parts; part += 8) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = first_row() + local + 4 * i;
            if (row < given.num_rows) sums[i] += __ldcg(given.squares + static_cast<i64>(row) * given.part_stride + part);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int step = 4; step > 0; step >>= 1) sums[i] += __shfl_xor_sync(~0u, sums[i], step);
        if (lane % 8 == 0) divisors[local + 4 * i] = rsqrtf(sums[i] / INPUTS + given.epsilon);
    }
}

// States of 16 rows x SHARED outputs, and the norm's weights.
struct Before {
    u32 states[2][EIGHTS], norm[EIGHTS];
    DEVICE void load(const Arguments& given, int strip, int output) {
        const int lane = threadIdx.x % 32, row = first_row() + strip * 16 + lane / 4;
        output += lane % 4 * 2;
#pragma unroll
        for (int eight = 0; eight < EIGHTS; eight++) {
            norm[eight] = load_pair(given.next_norm, (output + eight * 8) / 2);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const u16* place = given.states + static_cast<i64>(row + 8 * half) * OUTPUTS + output + eight * 8;
                states[half][eight] = 0;
                if (row + 8 * half < given.num_rows)
                    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(states[half][eight]) : "l"(place));
            }
        }
    }
};

// Ends 16 rows x SHARED outputs.
DEVICE void finish(const Arguments& given, const float* divisors, const Before& before, int strip, int output,
                   float (&sums)[EIGHTS][4], float (&lifts)[EIGHTS][4]) {
    const int lane = threadIdx.x % 32;
    output += lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int local = strip * 16 + half * 8 + lane / 4, row = first_row() + local;
        const bool is_row = row < given.num_rows;
        const float divisor = NORMED && is_row ? divisors[local] : 1.f;
        float square = 0.f;
#pragma unroll
        for (int eight = 0; eight < EIGHTS; eight++) {
            const i64 target = static_cast<i64>(row) * OUTPUTS + output + eight * 8;
            const u32 bias = BIASED ? load_pair(given.next_norm, (output + eight * 8) / 2) : 0;
            float pair[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                pair[i] = sums[eight][2 * half + i] * divisor;
                if (BIASED) pair[i] += i == 0 ? low(bias) : high(bias);
                if (GATED) pair[i] = __fdividef(pair[i], 1.f + __expf(-pair[i])) * (lifts[eight][2 * half + i] * divisor);
            }
            if (ADDED && is_row) {
                const u32 states = before.states[half][eight], norm = before.norm[eight];
                pair[0] += low(states), pair[1] += high(states);
                *reinterpret_cast<u32*>(given.scaled + target) = packed(pair[0] * low(norm), pair[1] * high(norm));
                square += pair[0] * pair[0] + pair[1] * pair[1];
            }
            if (is_row) *reinterpret_cast<u32*>(given.result + target) = packed(pair[0], pair[1]);
        }
        if (ADDED) {
            square += __shfl_xor_sync(~0u, square, 1);
            square += __shfl_xor_sync(~0u, square, 2);
            if (is_row && lane % 4 == 0) given.parts[static_cast<i64>(row) * (OUTPUTS / SHARED) + output / SHARED] = square;
        }
    }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, GROUPS == 1 ? 2 : 1)
#if SPLITS > 1
__cluster_dims__(SPLITS, 1, 1)
#endif
many_rows(const __grid_constant__ Arguments given) {
    extern __shared__ __align__(1024) char memory[];
    const u32 start = shared_address(memory), rows = start + Layout::rows, sums = start + Layout::sums;
    const u32 weights_full = start + Layout::barriers, weights_empty = weights_full + 8 * WEIGHT_STAGES;
    const u32 rows_full = weights_empty + 8 * WEIGHT_STAGES, rows_empty = rows_full + 8 * ROW_STAGES;
    const u32 sums_full = rows_empty + 8 * ROW_STAGES;
    float* divisors = reinterpret_cast<float*>(memory + Layout::divisors);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int part = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS, first_output = tile * BLOCK_OUTPUTS;
    // Blocks begin at different inputs: if all read the same rows at a time, few slices of the L2 cache have all the work.
    const int first_chunk = part * STEPS * CHUNKS, first_step = tile % STEPS;
    const int chunk_bytes = (min(given.num_rows, ROWS) + 7) / 8 * 8 * 128;  // of rows; groups of eight are swizzled together
    if (threadIdx.x == 32) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&given.weight) : "memory");
        asm volatile("prefetch.tensormap [%0];" ::"l"(&given.inputs) : "memory");
    }
    if (BIASED && threadIdx.x * 64 < BLOCK_OUTPUTS)  // it is read at the end
        asm volatile("prefetch.global.L2 [%0];" ::"l"(given.next_norm + first_output + threadIdx.x * 64));
    if (threadIdx.x == 0) {
        for (int i = 0; i < WEIGHT_STAGES; i++) init_barrier(weights_full + 8 * i, 1), init_barrier(weights_empty + 8 * i, 4);
        for (int i = 0; i < ROW_STAGES; i++) init_barrier(rows_full + 8 * i, 1), init_barrier(rows_empty + 8 * i, 4);
        if (SPLITS > 1) init_barrier(sums_full, 1), expect_bytes(sums_full, SUM_BYTES);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#if SPLITS > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // others may write here once all have begun
#endif
    float acc[CHAINS][N / 2];
    Before before;
    const int group = warp / 4;
    if (group == GROUPS) {
        if (warp % 4 == 0 && is_elected()) {  // weights are constant: no wait for earlier kernels
            Stage stage{0, 1};
            for (int step = 0; step < STEPS; step++, stage.advance<WEIGHT_STAGES>(1)) {
                const u32 full = weights_full + 8 * stage.index;
                if (step >= WEIGHT_STAGES) await_barrier(weights_empty + 8 * stage.index, stage.parity);
                expect_bytes(full, WEIGHT_BYTES);
                const int chunk = first_chunk + (step + first_step) % STEPS * CHUNKS;
                copy_weights(start + stage.index * WEIGHT_BYTES, given.weight, first_output, chunk, full);
            }
        }
        if (warp % 4 == 1 && is_elected()) {
            asm volatile("griddepcontrol.wait;" ::: "memory");
            asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
            Stage stage{0, 1};
            for (int step = 0; step < STEPS; step++, stage.advance<ROW_STAGES>(1)) {
                const u32 full = rows_full + 8 * stage.index;
                if (step >= ROW_STAGES) await_barrier(rows_empty + 8 * stage.index, stage.parity);
                expect_bytes(full, CHUNKS * chunk_bytes);
                const int chunk = first_chunk + (step + first_step) % STEPS * CHUNKS;
                copy_rows(rows + stage.index * ROW_BYTES, given.inputs, chunk, full);
            }
        }
        if (NORMED && warp % 4 >= 2) {
            asm volatile("griddepcontrol.wait;" ::: "memory");
            for (int strip = warp % 4 - 2; strip < STRIPS; strip += 2) load_divisors(given, divisors, part * STRIPS + strip);
        }
        __syncwarp();
    } else {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (ADDED && warp < UNITS) before.load(given, part * STRIPS + warp % STRIPS, first_output + warp / STRIPS * SHARED);
        Stage weights{group, 0}, row{group, 0};
        int weights_before = 0, row_before = 0;
#pragma unroll 1
        for (int step = group; step < STEPS; step += GROUPS) {
            await_barrier(weights_full + 8 * weights.index, weights.parity);
            await_barrier(rows_full + 8 * row.index, row.parity);
            const u32 row_place = rows + row.index * ROW_BYTES, place = start + weights.index * WEIGHT_BYTES;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                const u64 a = descriptor(row_place + chunk * chunk_bytes), b = descriptor(place + chunk * N * 128);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    product(acc[k % CHAINS], a + 2 * k, b + 2 * k, chunk > 0 || k >= CHAINS || step > group);
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (lane == 0 && step > group) arrive(weights_empty + 8 * weights_before), arrive(rows_empty + 8 * row_before);
            weights_before = weights.index, row_before = row.index;
            weights.advance<WEIGHT_STAGES>(GROUPS);
            row.advance<ROW_STAGES>(GROUPS);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; chain++) asm volatile("" : "+f"(acc[chain][i])::"memory");  // not before the wait
#pragma unroll
            for (int chain = 1; chain < CHAINS; chain++) acc[0][i] += acc[chain][i];
        }
    }
    __syncwarp();
#if SPLITS > 1
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
    if (group < GROUPS) {
        const int strip = warp % 4;
        u32 target = sums + (((part * GROUPS + group) * STRIPS + strip % STRIPS) * (N / 8) * 32 + lane) * 16;
#if SPLITS > 1
        u32 full = sums_full;
        asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(target) : "r"(strip / STRIPS));
        asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(full) : "r"(strip / STRIPS));
#define SEND(place, a, b, c, d) \
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(place), "f"(a), \
                 "f"(b), "f"(c), "f"(d), "r"(full) : "memory")
#else
#define SEND(place, a, b, c, d) \
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(place), "f"(a), "f"(b), "f"(c), "f"(d) : "memory")
#endif
#pragma unroll
        for (int eight = 0; eight < N / 8; eight++)
            SEND(target + eight * 512, acc[0][eight * 4], acc[0][eight * 4 + 1], acc[0][eight * 4 + 2], acc[0][eight * 4 + 3]);
    }
    __syncthreads();
    if (group == GROUPS) return;
#if SPLITS > 1
    await_cluster(sums_full);
#endif
    float totals[EIGHTS][4], lifts[EIGHTS][4];
    const float4* given_sums = reinterpret_cast<const float4*>(memory + Layout::sums) + lane;
#pragma unroll 1
    for (int unit = warp; unit < UNITS; unit += 4 * GROUPS) {
        const int strip = unit % STRIPS, first = unit / STRIPS * EIGHTS;
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; i++) totals[i / 4][i % 4] = lifts[i / 4][i % 4] = 0.f;
#pragma unroll
        for (int source = 0; source < SOURCES; source++)
#pragma unroll
            for (int eight = 0; eight < EIGHTS; eight++) {
                const float4* place = given_sums + ((source * STRIPS + strip) * (N / 8) + first + eight) * 32;
                const float4 each = *place;
                totals[eight][0] += each.x, totals[eight][1] += each.y, totals[eight][2] += each.z, totals[eight][3] += each.w;
                if (GATED) {
                    const float4 lift = place[BLOCK_OUTPUTS / 8 * 32];
                    lifts[eight][0] += lift.x, lifts[eight][1] += lift.y, lifts[eight][2] += lift.z, lifts[eight][3] += lift.w;
                }
            }
        finish(given, divisors, before, part * STRIPS + strip, first_output + first * 8, totals, lifts);
    }
}

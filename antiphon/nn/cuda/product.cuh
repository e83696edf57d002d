// Products of a resident block: weights that stream through shared memory, inputs from other blocks.
//
// All warps take the same outputs, each its share of the inputs, and their sums are added up in one order, so
// that a column's result does not depend on the other columns.

constexpr int NUM_WARPS = 16;
constexpr int NUM_THREADS = NUM_WARPS * 32;  // and one warp more, which copies weights
constexpr int STAGE_BYTES = NUM_WARPS * 2 * 512;
constexpr int NUM_STAGES = 9;
constexpr int SPLIT = 4;  // threads that add up one sum

// Weights arrive in stages, which hold two quadruples of words for each lane.
struct Ring {
    u32 full, empty;  // barriers of all stages, 8 bytes each
    u32 data;
    u32 zero;  // which the compiler does not know to be zero
    u32 stage, parity;

    DEVICE void advance() {
        if (++stage == NUM_STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    template <int COUNT>
    DEVICE void take(uint4 (&weights)[COUNT]) {
        static_assert(COUNT % 2 == 0, "a stage has two for each lane");
        static_assert(COUNT / 2 <= NUM_STAGES, "all are taken before one is given back");
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        u32 emptied = stage;
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            await_barrier(full + stage * 8, parity);
            const u32 place = data + stage * STAGE_BYTES + (warp * 2 * 32 + lane) * 16;
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint4& word = weights[i + j];
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                             : "r"(place + j * 512)
                             : "memory");
            }
            advance();
        }
        __syncwarp();
        // A stage is empty when what was read of it is there, not when it was asked for: by its address, the
        // arrival depends on it. Lanes meet after each wait and load as one: what the first has, all have.
        if (lane == 0) {
#pragma unroll
            for (int i = 0; i < COUNT; i += 2) {
                arrive(empty + emptied * 8 + ((weights[i].x ^ weights[i + 1].x) & zero));
                if (++emptied == NUM_STAGES) emptied = 0;
            }
        }
        __syncwarp();
    }
};

// The thread that has weights copied. With more copies under way than the memory needs to be busy, what
// blocks tell each other would wait behind them.
struct Copier {
    Ring ring, oldest;
    int num_copied;

    DEVICE void copy(const char* source, u64 policy) {
        if (num_copied++ >= COPIES) {
            await_barrier(oldest.full + oldest.stage * 8, oldest.parity);
            oldest.advance();
        }
        await_barrier(ring.empty + ring.stage * 8, ring.parity ^ 1);
        expect_bytes(ring.full + ring.stage * 8, STAGE_BYTES);
        copy_bulk(ring.data + ring.stage * STAGE_BYTES, source, STAGE_BYTES, ring.full + ring.stage * 8,
                  policy);
        ring.advance();
    }
};

// Multiply TILES times 16 outputs; quadruple i belongs to step i / TILES and tile i % TILES.
template <int TILES, int STEPS>
DEVICE void multiply_tiles(float (&sums)[TILES][4], const uint4 (&weights)[TILES * STEPS],
                           const Inputs<STEPS>& inputs) {
    float odd[TILES][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const uint4& a = weights[step * TILES + tile];
            multiply(step % 2 ? odd[tile] : sums[tile], a.x, a.y, a.z, a.w, inputs.pair(step, 0),
                     inputs.pair(step, 1));
        }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[tile][i] += odd[tile][i];
}

// Multiply 8 outputs; a quadruple holds two steps.
template <int STEPS>
DEVICE void multiply_half(float (&sums)[1][4], const uint4 (&weights)[STEPS / 2],
                          const Inputs<STEPS>& inputs) {
    float odd[4] = {};
#pragma unroll
    for (int i = 0; i < STEPS / 2; i++) {
        multiply(sums[0], weights[i].x, 0, weights[i].y, 0, inputs.pair(2 * i, 0), inputs.pair(2 * i, 1));
        multiply(odd, weights[i].z, 0, weights[i].w, 0, inputs.pair(2 * i + 1, 0), inputs.pair(2 * i + 1, 1));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) sums[0][i] += odd[i];
}

// Sums of each warp: of all columns, OUTPUTS in turn, with room between columns and warps so that no banks
// collide.
template <int OUTPUTS>
constexpr int COLUMN_STRIDE = OUTPUTS + 4;
template <int OUTPUTS>
constexpr int WARP_STRIDE = COLUMNS * COLUMN_STRIDE<OUTPUTS> + 2;
template <int OUTPUTS>
DEVICE void keep_sums(float* kept, const float (&sums)[(OUTPUTS + 15) / 16][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* mine = kept + warp * WARP_STRIDE<OUTPUTS> + lane % 4 * 2 * COLUMN_STRIDE<OUTPUTS> + lane / 4;
#pragma unroll
    for (int i = 0; i < OUTPUTS / 8; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) mine[j * COLUMN_STRIDE<OUTPUTS> + i * 8] = sums[i / 2][i % 2 * 2 + j];
}

// A thread's part in adding sums up: a column, one of SPLIT shares of the warps, and outputs in turn, the
// same in a warp.
struct Adder {
    int column, share, turn;
    DEVICE Adder() : column(threadIdx.x % 8), share(threadIdx.x / 8 % SPLIT), turn(threadIdx.x / 32) {}

    DEVICE float total(float number) const {
        number += __shfl_xor_sync(~0u, number, 8);
        return number + __shfl_xor_sync(~0u, number, 16);
    }
    // Add up COUNT outputs, two or four.
    template <int OUTPUTS, int COUNT>
    DEVICE void add(float (&numbers)[COUNT], const float* kept) const {
        const float* place =
            kept + share * WARP_STRIDE<OUTPUTS> + column * COLUMN_STRIDE<OUTPUTS> + turn * COUNT;
#pragma unroll
        for (int i = 0; i < COUNT; i++) numbers[i] = 0.f;
#pragma unroll
        for (int i = 0; i < NUM_WARPS / SPLIT; i++) {
            const float* some = place + i * SPLIT * WARP_STRIDE<OUTPUTS>;
#pragma unroll
            for (int j = 0; j < COUNT; j += 2) {
                const float2 two = *reinterpret_cast<const float2*>(some + j);
                numbers[j] += two.x, numbers[j + 1] += two.y;
            }
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++) numbers[i] = total(numbers[i]);
    }
    // The divisor of the norm, of sums of squares of each warp.
    DEVICE float divisor(const float* squares, int width, float epsilon) const {
        float number = 0.f;
#pragma unroll
        for (int i = 0; i < NUM_WARPS / SPLIT; i++) number += squares[(i * SPLIT + share) * COLUMNS + column];
        return rsqrtf(total(number) / width + epsilon);
    }
};

// Keep the sum of squares of a warp's inputs, by which a norm divides. Its weights are in those of the
// product.
template <int STEPS>
DEVICE void keep_squares(float* squares, const Inputs<STEPS>& inputs) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float square = 0.f;
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float first = low(inputs.pair(i, j)), second = high(inputs.pair(i, j));
            square += first * first + second * second;
        }
    square += __shfl_xor_sync(~0u, square, 1);
    square += __shfl_xor_sync(~0u, square, 2);
    if (lane % 4 == 0) squares[warp * COLUMNS + lane / 4] = square;
}

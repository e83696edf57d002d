// Product of a few rows, fused with the norm before it and the gate or the sum after it.
//
// A block has some outputs, and its warps share the inputs. A thread copies the weights that it multiplies itself,
// 16 bytes at a time, the first STAGES chunks of them before it waits for the kernel before. The sums of the warps are
// added up in one order, so that a row's result does not depend on the other rows.

constexpr int NUM_THREADS = WARPS * 32;
constexpr int PART = INPUTS / WARPS;  // inputs of a warp
constexpr int CHUNK = 64;                 // inputs that are copied at a time, for 16 weights each
constexpr int CHUNKS = PART / CHUNK;
constexpr int UNITS = TILES * CHUNKS;
constexpr int ROWS = 8;               // of a matrix instruction
constexpr int UNIT_BYTES = NUM_THREADS * 64;
constexpr int TILE_OUTPUTS = GATED ? 8 : 16;
constexpr int BLOCK_OUTPUTS = TILES * TILE_OUTPUTS;
constexpr int SUM_STRIDE = 16 * TILES + 4;  // of a row, so that no banks collide
constexpr int WARP_SUMS = ROWS * SUM_STRIDE;
static_assert(PART % CHUNK == 0 && STAGES <= UNITS, "");

extern "C" __device__ constexpr int few_rows_shared_bytes = STAGES * UNIT_BYTES + (WARPS * WARP_SUMS + ROWS) * 4;

struct Arguments {
    const u16* inputs;
    const float* squares;
    const u16* weight;
    const u16* states;
    const u16* next_norm;  // or the bias
    u16* result;
    u16* scaled;
    float* parts;
    float epsilon;
    int num_rows, input_stride, num_parts, part_stride;
};

DEVICE void copy_16(u32 target, const u16* source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}
DEVICE uint4 shared_16(u32 place) {
    uint4 word;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "r"(place)
                 : "memory");
    return word;
}
DEVICE float bfloat(u16 number) { return __uint_as_float(static_cast<u32>(number) << 16); }

// Copies chunks of 16 outputs, two rows of a lane, two times 16 bytes of each; chunk after chunk, tile after tile.
struct Copier {
    const u16* next;
    u32 target, end;
    int chunk, num_left;

    DEVICE void copy() {
        if (num_left > 0) {
            const u16* second = next + static_cast<i64>(GATED ? OUTPUTS : 8) * INPUTS;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                copy_16(target + (2 * half) * NUM_THREADS * 16, next + half * 32);
                copy_16(target + (2 * half + 1) * NUM_THREADS * 16, second + half * 32);
            }
            num_left--;
            target = advanced(target);
            next += CHUNK;
            if (++chunk == CHUNKS) chunk = 0, next += static_cast<i64>(TILE_OUTPUTS) * INPUTS - PART;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    DEVICE u32 advanced(u32 place) const {
        place += UNIT_BYTES;
        return place < end ? place : place - STAGES * UNIT_BYTES;
    }
};

extern "C" __global__ void __launch_bounds__(NUM_THREADS, RESIDENT) few_rows(const Arguments given) {
    extern __shared__ __align__(16) char memory[];
    float* sums = reinterpret_cast<float*>(memory + STAGES * UNIT_BYTES);
    float* divisors = sums + WARPS * WARP_SUMS;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, group = lane / 4;
    const int column = warp * PART + lane % 4 * 8;
    const u32 place = shared_address(memory) + thread * 16;
    const int first_output = blockIdx.x * BLOCK_OUTPUTS;
    const u16* weight = given.weight + static_cast<i64>(first_output + group) * INPUTS + column;
    Copier copier{weight, place, place + STAGES * UNIT_BYTES, 0, UNITS};
#pragma unroll
    for (int i = 0; i < STAGES; i++) copier.copy();
    if ((ADDED || BIASED) && thread * 64 < BLOCK_OUTPUTS)  // they are read at the end
        asm volatile("prefetch.global.L2 [%0];" ::"l"(given.next_norm + first_output + thread * 64));
    await_others();
    uint4 inputs[CHUNKS][2];
    const uint4* row_inputs = reinterpret_cast<const uint4*>(given.inputs + static_cast<i64>(group) * given.input_stride + column);
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            inputs[chunk][half] = group < given.num_rows ? __ldcg(row_inputs + chunk * 8 + half * 4) : uint4{0, 0, 0, 0};
    if (NORMED) {
        for (int row = warp; row < given.num_rows; row += WARPS) {
            float square = 0.f;
            for (int part = lane; part < given.num_parts; part += 32)
                square += __ldcg(given.squares + static_cast<i64>(row) * given.part_stride + part);
            square = warp_sum(square);
            if (lane == 0) divisors[row] = rsqrtf(square / INPUTS + given.epsilon);
        }
    }
    u32 source = place;
#pragma unroll 1
    for (int tile = 0; tile < TILES; tile++) {
        float kept[4] = {};
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
            uint4 weights[2][2];
#pragma unroll
            for (int i = 0; i < 4; i++) weights[i / 2][i % 2] = shared_16(source + i * NUM_THREADS * 16);
            source = copier.advanced(source);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint4 &a = weights[half][0], &b = weights[half][1], &x = inputs[chunk][half];
                multiply(kept, a.x, b.x, a.y, b.y, x.x, x.y);
                multiply(kept, a.z, b.z, a.w, b.w, x.z, x.w);
            }
            copier.copy();
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = lane % 4 * 2 + i % 2, output = tile * 16 + i / 2 * 8 + group;
            sums[warp * WARP_SUMS + row * SUM_STRIDE + output] = kept[i];
        }
    }
    __syncthreads();
    for (int index = thread; index < ROWS * BLOCK_OUTPUTS; index += NUM_THREADS) {
        const int row = index / BLOCK_OUTPUTS, output = index % BLOCK_OUTPUTS;
        const int at = row * SUM_STRIDE + (GATED ? output / 8 * 16 + output % 8 : output);
        float total = 0.f, lifted = 0.f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            total += sums[i * WARP_SUMS + at];
            if (GATED) lifted += sums[i * WARP_SUMS + at + 8];
        }
        if (NORMED) total *= divisors[row], lifted *= divisors[row];
        if (BIASED) total += bfloat(given.next_norm[first_output + output]);
        if (GATED) total = total / (1.f + __expf(-total)) * lifted;
        const bool is_row = row < given.num_rows;
        const i64 target = static_cast<i64>(row) * OUTPUTS + first_output + output;
        if (ADDED) {
            if (is_row) {
                total += bfloat(__ldcg(given.states + target));
                given.scaled[target] = static_cast<u16>(packed(total * bfloat(given.next_norm[first_output + output]), 0.f));
            }
            float square = total * total;
#pragma unroll
            for (int step = BLOCK_OUTPUTS < 32 ? BLOCK_OUTPUTS / 2 : 16; step > 0; step >>= 1)
                square += __shfl_xor_sync(~0u, square, step);
            constexpr int SHARED = BLOCK_OUTPUTS < 32 ? BLOCK_OUTPUTS : 32;
            if (is_row && output % SHARED == 0)
                given.parts[static_cast<i64>(row) * (OUTPUTS / SHARED) + (first_output + output) / SHARED] = square;
        }
        if (is_row) given.result[target] = static_cast<u16>(packed(total, 0.f));
    }
}

// Causal convolution of many streams with many channels: bias, addend, snake, and the columns that are kept.
//
// A block of two consumer warpgroups (`wgmma`) and more warps: four bring columns (`cp.async`, each row from where it
// is: the columns of this pass, or a slot's memory), one weights (TMA), one keeps the last columns for the next call.
// Sums run over taps and, in each, over inputs in order, in one accumulator each: they do not depend on the tile or the
// batch, and equal those of `antiphon.nn.kernels.causal_conv`.
//
// MATRICES: of 64 columns of a warpgroup. N: outputs of a tile. STAGES of 64 inputs.
//
// Parity distinguishes two successive phases of a barrier, no more: so all consumers await all stages in order.

constexpr int GROUPS = 2, NUM_THREADS = 128 * (GROUPS + 2);
constexpr int COLS = GROUPS * MATRICES * 64;  // of a tile
constexpr int WIDE = N % 64 == 0 ? 64 : 32;  // outputs that are swizzled together
constexpr int ROW_BYTES = COLS * 128, WEIGHT_BYTES = N * 128, STAGE_BYTES = ROW_BYTES + WEIGHT_BYTES;
constexpr int LOADERS = 128, PASS = LOADERS / 8, PASSES = COLS / PASS;  // a pass of all loaders copies PASS rows
constexpr int BATCH = 8;  // rows of a loader at a time
constexpr int SOURCES_PITCH = PASSES * 8 + 16, SOURCES_BYTES = PASS * SOURCES_PITCH;
constexpr int PIECE_PITCH = WIDE * 4 + 32, PIECE_BYTES = 16 * PIECE_PITCH;  // of WIDE outputs that a warp ends at a time
constexpr int SLOTS = 3, SLOT_BYTES = 3072;  // of kept columns, on their way
constexpr int CONSUMER_WARPS = 4 * GROUPS;
constexpr int REGISTERS = 184, FEW_REGISTERS = 72;  // as many as there are
static_assert(N % 32 == 0 && MATRICES * N <= 256 && PASSES % BATCH == 0, "sizes");

struct Layout {
    static const int pieces = STAGES * STAGE_BYTES;
    static const int slots = (pieces + CONSUMER_WARPS * PIECE_BYTES + 127) / 128 * 128;
    static const int sources = slots + SLOTS * SLOT_BYTES;
    static const int present = sources + 2 * SOURCES_BYTES;
    static const int past = present + COLS * 8;
    static const int places = past + COLS * 8;
    static const int barriers = places + COLS * 4;
    static const int end = barriers + (2 * STAGES + SLOTS) * 8;
};
extern "C" __constant__ int wide_conv_shared_bytes = Layout::end;

struct Arguments {
    TensorMap weight;  // [num_taps * num_in, num_out]
    const u16 *x, *memory;
    const int* table;
    const float *bias, *frequency, *amplitude;
    const u16* residual;
    u16 *result, *active;
    int num_columns, rate, size, row_size, offset, num_in, num_out, num_taps, dilation, unused[5];
};

DEVICE void copy_weights(u32 target, const TensorMap& map, int output, int input, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
        "l"(&map), "r"(output), "r"(input), "r"(barrier)
        : "memory");
}
DEVICE void release(u32 barrier) {  // of a stage, by one warp
    if (threadIdx.x % 32 == 0) arrive(barrier);
}
// Of columns: rows of 128 swizzled bytes, groups of eight rows one after the other.
DEVICE u64 row_descriptor(u32 address) { return (u64)((address >> 4) & 0x3FFF) | (64ull << 32) | (1ull << 62); }
// Of weights: WIDE outputs of each of 64 inputs, swizzled; then those of the next outputs.
DEVICE u64 weight_descriptor(u32 address) {
    const u64 block = (u64)(64 * WIDE * 2 >> 4) << 16, eight = (u64)(8 * WIDE * 2 >> 4) << 32;
    return (u64)((address >> 4) & 0x3FFF) | block | eight | (WIDE == 64 ? 1ull : 2ull) << 62;
}
GENERATED_PRODUCT

template <int PENDING>
DEVICE void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

struct Stage {  // of the ring
    int index = 0;
    u32 parity = 0;
    DEVICE void advance() {
        if (++index == STAGES) index = 0, parity ^= 1;
    }
};

struct Tiles {
    int per_column, number, steps;  // outputs' tiles, all tiles, steps of a tile
    DEVICE explicit Tiles(const Arguments& given)
        : per_column(given.num_out / N), number((given.num_columns + COLS - 1) / COLS * per_column), steps(given.num_taps * given.num_in / 64) {}
    DEVICE int column(int item) const { return item / per_column * COLS; }
    DEVICE int output(int item) const { return item % per_column * N; }
};

DEVICE void load_weights(const Arguments& given, const Tiles& tiles, u32 start, u32 full, u32 empty) {
    Stage stage;
    stage.parity = 1;  // all stages are empty at first
    for (int item = blockIdx.x; item < tiles.number; item += gridDim.x) {
        const int output = tiles.output(item);
        for (int step = 0; step < tiles.steps; step++, stage.advance()) {
            await_barrier(empty + 8 * stage.index, stage.parity);
            const u32 barrier = full + 8 * stage.index, target = start + stage.index * STAGE_BYTES + ROW_BYTES;
            expect_bytes(barrier, WEIGHT_BYTES);
#pragma unroll
            for (int block = 0; block < N / WIDE; block++)
                copy_weights(target + block * (64 * WIDE * 2), given.weight, output + block * WIDE, step * 64, barrier);
        }
    }
}

DEVICE int load_number(const int* place) {
    int number;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(number) : "l"(place));
    return number;
}

// Where each row of a tile is: its column, the past of its stream behind it, and its place in the stream's columns.
struct Finder {
    static const int ROWS = COLS / LOADERS;  // of a thread
    const Arguments& given;
    const int thread;
    int places[ROWS], slots[ROWS], turns[ROWS];  // of the rows' frames
    DEVICE int column(int first_column, int i) const { return min(first_column + thread + i * LOADERS, given.num_columns - 1); }
    DEVICE void look_up(int first_column) {  // in advance
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const int* frame = given.table + column(first_column, i) / given.rate;
            places[i] = load_number(frame + given.size), slots[i] = load_number(frame), turns[i] = load_number(frame + 4 * given.size);
        }
    }
    DEVICE void note(int first_column, const u16** present, const u16** past, int* place_of) const {
        const int before = (given.num_taps - 1) * given.dilation;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const int here = column(first_column, i), row = thread + i * LOADERS;
            present[row] = given.x + (i64)here * given.num_in;
            const int place = places[i] * given.rate + here % given.rate;
            past[row] = given.memory + (i64)slots[i] * given.row_size + given.offset + (i64)(turns[i] * before + before + place) * given.num_in;
            place_of[row] = place;
        }
    }
};

DEVICE void load_columns(const Arguments& given, const Tiles& tiles, char* shared, u32 start, u32 full, u32 empty) {
    const u16** present = reinterpret_cast<const u16**>(shared + Layout::present);
    const u16** past = reinterpret_cast<const u16**>(shared + Layout::past);
    int* places = reinterpret_cast<int*>(shared + Layout::places);
    const int thread = threadIdx.x - CONSUMER_WARPS * 32, first_row = thread / 8, part = thread % 8;
    const u32 target = start + first_row * 128 + ((part ^ first_row % 8) << 4);
    u32 sources = start + Layout::sources, other_sources = sources + SOURCES_BYTES;  // of a tap, those of PASS rows side by side
    Stage stage;
    stage.parity = 1;
    Finder finder{given, thread};
    finder.look_up(tiles.column(blockIdx.x));
    for (int item = blockIdx.x; item < tiles.number; item += gridDim.x) {
        finder.note(tiles.column(item), present, past, places);
        for (int shift = (given.num_taps - 1) * given.dilation; shift >= 0; shift -= given.dilation) {
#pragma unroll
            for (int row = thread; row < COLS; row += LOADERS) {
                const u16* from = shift > 0 && places[row] < shift ? past[row] : present[row];
                asm volatile("st.shared.u64 [%0], %1;" ::"r"(sources + row % PASS * SOURCES_PITCH + row / PASS * 8), "l"(from - (i64)shift * given.num_in) : "memory");
            }
            asm volatile("bar.sync 1, %0;" ::"n"(LOADERS) : "memory");
            if (shift == 0) finder.look_up(tiles.column(item + gridDim.x));
            const u32 of_thread = sources + first_row * SOURCES_PITCH;
            u64 ahead = part * 16;
#pragma unroll 1
            for (int input = 0; input < given.num_in; input += 64, ahead += 128, stage.advance()) {
                await_barrier(empty + 8 * stage.index, stage.parity);
                const u32 place = target + stage.index * STAGE_BYTES;
#pragma unroll
                for (int first = 0; first < PASSES; first += BATCH) {
                    u64 from[BATCH];  // read together: a copy that waits for its own address is slow
#pragma unroll
                    for (int i = 0; i < BATCH; i += 2)
                        asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];" : "=l"(from[i]), "=l"(from[i + 1]) : "r"(of_thread + (first + i) * 8) : "memory");
#pragma unroll
                    for (int i = 0; i < BATCH; i++)
                        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place + (first + i) * PASS * 128), "l"(from[i] + ahead) : "memory");
                }
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * stage.index) : "memory");
            }
            const u32 swapped = sources;
            sources = other_sources, other_sources = swapped;
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Writes the last columns of each row into the copy that is not read: one lane of each block, some columns at a time.
DEVICE void keep_columns(const Arguments& given, u32 slots, u32 barriers) {
    const int* offsets = given.table + 2 * given.size;
    const int before = (given.num_taps - 1) * given.dilation, column_bytes = given.num_in * 2;
    const int most = min(before, SLOT_BYTES / column_bytes), per_row = (before + most - 1) / most;
    const int number = load_number(given.table + 3 * given.size) * per_row;
    const int end_unit = (i64)number * (blockIdx.x + 1) / gridDim.x;
    int row = -1, length = 0;
    const u16 *columns = nullptr, *earlier = nullptr;  // of the row, at its last columns
    u16 *later = nullptr, *target = nullptr;  // of what is on its way here
    u32 num_bytes = 0, before_slot = 0, slot = 0, before_parity = 0, parity = 0;
    for (int unit = (i64)number * blockIdx.x / gridDim.x;; unit++) {
        u16* next = nullptr;
        u32 next_bytes = 0;
        if (unit < end_unit) {
            if (unit / per_row != row) {
                row = unit / per_row;
                const int frame = load_number(offsets + row), turn = load_number(given.table + 4 * given.size + frame);
                length = (load_number(offsets + row + 1) - frame) * given.rate;
                u16* copies = const_cast<u16*>(given.memory) + (i64)load_number(given.table + frame) * given.row_size + given.offset;
                columns = given.x + ((i64)frame * given.rate + length - before) * given.num_in;
                earlier = copies + (i64)(turn * before + length) * given.num_in, later = copies + (i64)((1 - turn) * before) * given.num_in;
            }
            const int first = (unit - row * per_row) * most, end = min(first + most, before);
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            next = later + (i64)first * given.num_in, next_bytes = (end - first) * column_bytes;
            expect_bytes(barriers + 8 * slot, next_bytes);
            for (int column = first; column < end; column++)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                                 slots + slot * SLOT_BYTES + (column - first) * column_bytes),
                             "l"((column + length >= before ? columns : earlier) + (i64)column * given.num_in), "r"(column_bytes), "r"(barriers + 8 * slot)
                             : "memory");
        }
        if (target) {
            await_barrier(barriers + 8 * before_slot, before_parity);
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target), "r"(slots + before_slot * SLOT_BYTES), "r"(num_bytes)
                         : "memory");
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!next) break;
        target = next, num_bytes = next_bytes, before_slot = slot, before_parity = parity;
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// As `antiphon.nn.kernels.snake.snake_of`, operation by operation.
DEVICE float snake_of(float x, float frequency, float amplitude) {
    float angle = __fmul_rn(x, frequency);
    const float turns = __fadd_rn(__fmaf_rn(angle, 0.3183098861837907f, 12582912.f), -12582912.f);
    angle = __fmaf_rn(turns, -3.140625f, angle);
    angle = __fmaf_rn(turns, -0.0009676535897932f, angle);
    const float square = __fmul_rn(angle, angle);
    float wave = __fmaf_rn(square, 2.59927819e-06f, -1.98062020e-04f);
    wave = __fmaf_rn(square, wave, 8.33301033e-03f);
    wave = __fmaf_rn(square, wave, -1.66666567e-01f);
    wave = __fmaf_rn(angle, __fmul_rn(square, wave), angle);
    return __fmaf_rn(wave, __fmul_rn(wave, amplitude), x);
}
DEVICE u32 narrowed(float first, float second) {  // infinite ones become the largest number
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    asm("max.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0xFBFFFBFFu));
    asm("min.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x7BFF7BFFu));
    return pair;
}
DEVICE void add_halves(float& first, float& second, u32 pair) {
    float low, high;
    asm("{.reg .f16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}" : "=f"(low), "=f"(high) : "r"(pair));
    first = __fadd_rn(first, low), second = __fadd_rn(second, high);
}
DEVICE float4 load_four(const float* source) {
    float4 four;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w) : "l"(source));
    return four;
}

// Ends 16 columns x WIDE outputs of a warp, from its sums in shared memory; a lane has four outputs.
DEVICE void finish(const Arguments& given, u32 piece, int column, int output) {
    constexpr int LANES = WIDE / 4, ROWS = 32 / LANES, TIMES = 16 / ROWS, AHEAD = 4;
    const int lane = threadIdx.x % 32;
    column += lane / LANES, output += lane % LANES * 4, piece += lane / LANES * PIECE_PITCH + lane % LANES * 16;
    const float4 bias = load_four(given.bias + output), frequency = load_four(given.frequency + output), amplitude = load_four(given.amplitude + output);
    i64 spot = (i64)column * given.num_out + output;
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < TIMES; first += AHEAD) {
#if HAS_RESIDUAL
        uint2 addends[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (column + i * ROWS < given.num_columns)
                asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(addends[i].x), "=r"(addends[i].y) : "l"(given.residual + spot + (i64)(i * ROWS) * given.num_out));
#endif
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            float4 sum;
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w) : "r"(piece + i * ROWS * PIECE_PITCH) : "memory");
            sum.x = __fadd_rn(sum.x, bias.x), sum.y = __fadd_rn(sum.y, bias.y), sum.z = __fadd_rn(sum.z, bias.z), sum.w = __fadd_rn(sum.w, bias.w);
#if HAS_RESIDUAL
            add_halves(sum.x, sum.y, addends[i].x), add_halves(sum.z, sum.w, addends[i].y);
#endif
            const bool inside = column + i * ROWS < given.num_columns;
            const i64 here = spot + (i64)(i * ROWS) * given.num_out;
#if KEEPS_SUM
            if (inside) *reinterpret_cast<uint2*>(given.result + here) = make_uint2(narrowed(sum.x, sum.y), narrowed(sum.z, sum.w));
#endif
            sum.x = snake_of(sum.x, frequency.x, amplitude.x), sum.y = snake_of(sum.y, frequency.y, amplitude.y);
            sum.z = snake_of(sum.z, frequency.z, amplitude.z), sum.w = snake_of(sum.w, frequency.w, amplitude.w);
            if (inside) *reinterpret_cast<uint2*>(given.active + here) = make_uint2(narrowed(sum.x, sum.y), narrowed(sum.z, sum.w));
        }
        column += AHEAD * ROWS, spot += (i64)(AHEAD * ROWS) * given.num_out, piece += AHEAD * ROWS * PIECE_PITCH;
    }
    __syncwarp();
}

DEVICE void compute(const Arguments& given, const Tiles& tiles, u32 start, u32 full, u32 empty) {
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), group = warp / 4, lane = threadIdx.x % 32;
    const int first_row = group * MATRICES * 64;
    Stage stage;
    for (int item = blockIdx.x; item < tiles.number; item += gridDim.x) {
        float acc[MATRICES][N / 2];
        int previous = 0;
#pragma unroll 1
        for (int step = 0; step < tiles.steps; step++) {
            await_barrier(full + 8 * stage.index, stage.parity);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // columns were not written by the proxy that reads
            const u32 place = start + stage.index * STAGE_BYTES;
            const u64 a = row_descriptor(place + first_row * 128), b = weight_descriptor(place + ROW_BYTES);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int block = 0; block < MATRICES; block++)
                    product(acc[block], a + 2 * k + block * (64 * 128 >> 4), b + k * (16 * WIDE * 2 >> 4), step > 0 || k > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            await_products<1>();
            if (step > 0) release(empty + 8 * previous);
            previous = stage.index;
            stage.advance();
        }
        await_products<0>();
#pragma unroll
        for (int block = 0; block < MATRICES; block++)
#pragma unroll
            for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(acc[block][i])::"memory");  // not before the wait
        release(empty + 8 * previous);
        const int column = tiles.column(item) + first_row + warp % 4 * 16, output = tiles.output(item);
        const u32 piece = start + Layout::pieces + warp * PIECE_BYTES, spot = piece + lane / 4 * PIECE_PITCH + lane % 4 * 8;
#pragma unroll
        for (int block = 0; block < MATRICES; block++)
#pragma unroll
            for (int first = 0; first < N; first += WIDE) {
#pragma unroll
                for (int i = first / 2; i < (first + WIDE) / 2; i += 2)
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(spot + (i - first / 2) / 4 * 32 + i / 2 % 2 * 8 * PIECE_PITCH),
                                 "f"(acc[block][i]), "f"(acc[block][i + 1])
                                 : "memory");
                finish(given, piece, column + block * 64, output + first);
            }
    }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1) wide_conv(const __grid_constant__ Arguments given) {
    extern __shared__ __align__(1024) char shared[];
    const u32 start = shared_address(shared), full = start + Layout::barriers, empty = full + 8 * STAGES;
    const Tiles tiles(given);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) init_barrier(full + 8 * i, 1 + LOADERS), init_barrier(empty + 8 * i, CONSUMER_WARPS);
        for (int i = 0; i < SLOTS; i++) init_barrier(empty + 8 * (STAGES + i), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp < CONSUMER_WARPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
        asm volatile("griddepcontrol.wait;" ::: "memory");
        compute(given, tiles, start, full, empty);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(FEW_REGISTERS));
        if (warp == CONSUMER_WARPS + LOADERS / 32) {  // weights are constant: no wait for earlier kernels
            if (is_elected()) {
                asm volatile("prefetch.tensormap [%0];" ::"l"(&given.weight) : "memory");
                load_weights(given, tiles, start, full, empty);
            }
            __syncwarp();
            asm volatile("griddepcontrol.wait;" ::: "memory");
        } else {
            asm volatile("griddepcontrol.wait;" ::: "memory");
            asm volatile("griddepcontrol.launch_dependents;");
            if (warp < CONSUMER_WARPS + LOADERS / 32)
                load_columns(given, tiles, shared, start, full, empty);
            else if (warp == CONSUMER_WARPS + LOADERS / 32 + 1 && is_elected())
                keep_columns(given, start + Layout::slots, empty + 8 * STAGES);
        }
    }
}

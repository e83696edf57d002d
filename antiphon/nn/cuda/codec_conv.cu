// Causal convolution of many streams, optionally a whole residual unit.
//
// A block computes COLS columns x N outputs, 64 columns in each of its warpgroups. Weights come in stages of
// KC inputs of one tap (bulk copies; all stages stay if RESIDENT), columns once for all taps, with those
// before them. `wgmma` takes columns from registers, so a tap may begin at any row of shared memory. Sums run
// over chunks of KC inputs, then taps, then inputs: their order does not depend on the tile or the batch.
//
// IN, OUT: channels. TAPS, DIL: of the convolution. RATE: columns of a frame. FUSED: a second product of one
// tap follows the first and its snake, N2 outputs at a time. HALOS: buffers of columns.

#define BEFORE ((TAPS - 1) * DIL)
#define CHUNKS (IN / KC)
#define PITCH (KC * 2 + 16)
#define SEGS (RATE % COLS == 0 ? 1 : (COLS % RATE == 0 ? COLS / RATE : COLS / RATE + 2))
#define HALO_ROWS (COLS + SEGS * BEFORE)
#define HALO_BYTES ((HALO_ROWS * PITCH + 127) / 128 * 128)
#define STAGE_BYTES (KC * N * 2)
#define FIRST_STAGES (CHUNKS * TAPS)
#define SECOND_STAGES (FUSED * N / N2)
#define TILE_STAGES (FIRST_STAGES + SECOND_STAGES)
#define NUM_STAGES (RESIDENT ? TILE_STAGES : STAGES)
#define N_TILES (OUT / N)
#define LOADERS 64
#define CONSUMER_WARPS (COLS / 16)
static_assert(OUT % N == 0 && IN % KC == 0 && KC % 16 == 0 && N % 32 == 0, "sizes");
static_assert(!FUSED || (OUT == N && IN == N && N * N2 == KC * N), "stages of both products have one size");

struct Layout {
    static const int weights = 0;
    static const int halos = weights + NUM_STAGES * STAGE_BYTES;
    static const int sources = halos + HALOS * HALO_BYTES;
    static const int barriers = sources + HALOS * HALO_ROWS * 8;
    static const int end = barriers + (2 * NUM_STAGES + 2 * HALOS) * 8;
};
extern "C" __constant__ int codec_conv_shared_bytes = Layout::end;

struct Arguments {
    const u16 *x, *memory;
    const int* table;
    const u16* weights;  // [N_TILES, TILE_STAGES, STAGE_BYTES / 2]
    const float *bias, *frequency, *amplitude;              // of the first product
    const float *bias2, *frequency2, *amplitude2;           // after the second product, or after the sum
    const u16* residual;
    u16 *result, *active;
    int num_columns, num_frames, size, row_size, offset;
};

DEVICE void copy_stage(u32 target, const void* source, u32 num_bytes, u32 barrier) {
    expect_bytes(barrier, num_bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
        "l"(source), "r"(num_bytes), "r"(barrier)
        : "memory");
}
DEVICE void load_fragment(u32 (&a)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address)
                 : "memory");
}
DEVICE u64 descriptor(u32 address, u32 leading_bytes) {
    const u64 stride = 128 >> 4;
    return (u64)((address >> 4) & 0x3FFF) | ((u64)(leading_bytes >> 4) << 16) | (stride << 32);
}
DEVICE void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
DEVICE void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
template <int SIZE>
DEVICE void pin(float (&acc)[SIZE]) {  // no use of sums moves before the wait
#pragma unroll
    for (int each = 0; each < SIZE; ++each) asm volatile("" : "+f"(acc[each])::"memory");
}
GENERATED_PRODUCTS
DEVICE float snake_of(float x, float frequency, float amplitude) {
    const float wave = __sinf(__fmul_rn(x, frequency));
    return __fmaf_rn(__fmul_rn(amplitude, wave), wave, x);
}
DEVICE u32 narrowed(float first, float second) {
    const float most = 65504.0f;
    first = fminf(fmaxf(first, -most), most), second = fminf(fmaxf(second, -most), most);
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
DEVICE void add_halves(float& first, float& second, u32 pair) {
    float low, high;
    asm("{.reg .f16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}"
        : "=f"(low), "=f"(high) : "r"(pair));
    first += low, second += high;
}
struct Eight {
    float v[8];
    DEVICE static void load(float4& four, const float* source) {
        asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                     : "l"(source));
    }
    DEVICE explicit Eight(const float* source) {
        float4 a, b;  // volatile, so that not all of a tile's are loaded at once
        load(a, source), load(b, source + 4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    }
};

#if HAS_RESIDUAL
template <int WIDTH>
struct Residual {
    uint4 v[WIDTH / 32][2];
    DEVICE void load(const Arguments& given, int column, int channel) {  // early: it arrives during the products
#pragma unroll
        for (int group = 0; group < WIDTH / 32; ++group) {
#pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                const int here = min(column + 8 * lower, given.num_columns - 1);
                const u16* place = given.residual + (size_t)here * OUT + channel + 32 * group + 8 * (threadIdx.x & 3);
                uint4& each = v[group][lower];
                asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(each.x), "=r"(each.y), "=r"(each.z), "=r"(each.w)
                             : "l"(place));
            }
        }
    }
};
#else
template <int WIDTH>
struct Residual {
    DEVICE void load(const Arguments&, int, int) {}
};
#endif

// Positions of outputs in a product are permuted within 32 so that a thread has 8 neighbouring channels:
// position 8 b + 2 q + i is channel 8 q + 2 b + i.
template <int WIDTH>
DEVICE void end_sum(const Arguments& given, const float (&acc)[WIDTH / 2], const Residual<WIDTH>& addend, int column, int channel) {
    const int quarter = threadIdx.x & 3;
#pragma unroll
    for (int group = 0; group < WIDTH / 32; ++group) {
        const int first = channel + 32 * group + 8 * quarter;
        const Eight bias(given.bias2 + first);
        const Eight frequency(given.frequency2 + first), amplitude(given.amplitude2 + first);
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const int here = column + 8 * lower;
            const bool inside = here < given.num_columns;
            const size_t spot = (size_t)here * OUT + first;
            float v[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) v[k] = acc[(group * 4 + k / 2) * 4 + 2 * lower + k % 2] + bias.v[k];
#if HAS_RESIDUAL
            const uint4 residual = addend.v[group][lower];
            const u32 pairs[4] = {residual.x, residual.y, residual.z, residual.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) add_halves(v[2 * k], v[2 * k + 1], pairs[k]);
#endif
#if KEEPS_SUM
            if (inside) *reinterpret_cast<uint4*>(given.result + spot) =
                make_uint4(narrowed(v[0], v[1]), narrowed(v[2], v[3]), narrowed(v[4], v[5]), narrowed(v[6], v[7]));
#endif
#pragma unroll
            for (int k = 0; k < 8; ++k) v[k] = snake_of(v[k], frequency.v[k], amplitude.v[k]);
            if (inside) *reinterpret_cast<uint4*>(given.active + spot) =
                make_uint4(narrowed(v[0], v[1]), narrowed(v[2], v[3]), narrowed(v[4], v[5]), narrowed(v[6], v[7]));
        }
    }
}

DEVICE void load_weights(const Arguments& given, u32 weights, u32 full, u32 empty, int num_tiles) {
    int step = 0;
    for (int item = blockIdx.x; item < num_tiles; item += gridDim.x) {
        const char* source = reinterpret_cast<const char*>(given.weights) + (size_t)(item % N_TILES) * TILE_STAGES * STAGE_BYTES;
        for (int each = 0; each < TILE_STAGES; ++each, ++step) {
            const int stage = step % NUM_STAGES, turn = step / NUM_STAGES;
            if (turn > 0) await_barrier(empty + 8 * stage, (turn - 1) & 1);
            copy_stage(weights + stage * STAGE_BYTES, source + (size_t)each * STAGE_BYTES, STAGE_BYTES, full + 8 * stage);
        }
        if (RESIDENT) break;
    }
}

DEVICE const u16* source_of(const Arguments& given, int first_column, int row) {
    const int first_frame = first_column / RATE;
    const int left = (first_frame + 1) * RATE - first_column;
    const int of_first = (left < COLS ? left : COLS) + BEFORE;
    int frame = first_frame, column = first_column + row - BEFORE;
    if (row >= of_first) {
        const int more = (row - of_first) / (RATE + BEFORE);
        frame += 1 + more;
        column = frame * RATE + (row - of_first) - more * (RATE + BEFORE) - BEFORE;
    }
    if (frame >= given.num_frames) return nullptr;
    const int place = given.table[given.size + frame] * RATE + column - frame * RATE;
    if (place >= 0) return given.x + (size_t)column * IN;
    const int slot = given.table[frame], turn = given.table[4 * given.size + frame];
    return given.memory + (size_t)slot * given.row_size + given.offset + (turn * BEFORE + BEFORE + place) * IN;
}

DEVICE void load_columns(const Arguments& given, u32 halos, const u16** sources, u32 full, u32 empty, int num_tiles) {
    const int thread = threadIdx.x - (CONSUMER_WARPS + 1) * 32;
    int step = 0, number = 0;
    for (int item = blockIdx.x; item < num_tiles; item += gridDim.x, ++number) {
        const int first_column = item / N_TILES * COLS;
        const u16** of_tile = sources + (number % 2) * HALO_ROWS;
        for (int row = thread; row < HALO_ROWS; row += LOADERS) of_tile[row] = source_of(given, first_column, row);
        asm volatile("bar.sync 1, %0;" ::"n"(LOADERS) : "memory");
        for (int chunk = 0; chunk < CHUNKS; ++chunk, ++step) {
            const int buffer = step % HALOS, turn = step / HALOS;
            if (turn > 0) await_barrier(empty + 8 * buffer, (turn - 1) & 1);
            const u32 target = halos + buffer * HALO_BYTES;
#pragma unroll 4
            for (int each = thread; each < HALO_ROWS * (KC / 8); each += LOADERS) {
                const int row = each / (KC / 8), part = each % (KC / 8);
                const u16* source = of_tile[row];
                const u32 num_bytes = source ? 16 : 0;
                const u16* from = source ? source + chunk * KC + part * 8 : given.x;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target + row * PITCH + part * 16),
                             "l"(from), "r"(num_bytes)
                             : "memory");
            }
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * buffer) : "memory");
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Writes the last columns of each row into the copy that is not read: one warp of each block.
DEVICE void keep_columns(const Arguments& given) {
    const int* offsets = given.table + 2 * given.size;
    const int of_row = BEFORE * (IN / 8), total = given.table[3 * given.size] * of_row, stride = gridDim.x * 32;
    for (int first = blockIdx.x * 32 + threadIdx.x % 32; first < total; first += 4 * stride) {
        uint4 numbers[4];
        u16* targets[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int each = first + k * stride;
            targets[k] = nullptr;
            if (each < total) {
                const int row = each / of_row, column = each % of_row / (IN / 8), part = each % (IN / 8);
                const int frame = offsets[row], length = (offsets[row + 1] - frame) * RATE;
                const int turn = given.table[4 * given.size + frame], source = column + length - BEFORE;
                u16* copies = const_cast<u16*>(given.memory) + (size_t)given.table[frame] * given.row_size + given.offset;
                const u16* from = source >= 0 ? given.x + ((size_t)frame * RATE + source) * IN
                                              : copies + (turn * BEFORE + column + length) * IN;
                targets[k] = copies + ((1 - turn) * BEFORE + column) * IN + part * 8;
                numbers[k] = __ldcg(reinterpret_cast<const uint4*>(from + part * 8));
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (targets[k]) *reinterpret_cast<uint4*>(targets[k]) = numbers[k];
    }
}

struct Position {
    int stage = 0;
    u32 parity = 0;
    template <int LAST>
    DEVICE void advance() {
        if (++stage == LAST) stage = 0, parity ^= 1;
    }
};

DEVICE void compute(const Arguments& given, u32 weights, u32 halos, u32 full, u32 empty, u32 halo_full, u32 halo_empty, int num_tiles) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int local = warp * 16 + (lane & 15);
    Position weight, halo;
    for (int item = blockIdx.x; item < num_tiles; item += gridDim.x) {
        const int first_column = item / N_TILES * COLS, channel = item % N_TILES * N;
        const int segment = SEGS == 1 ? 0 : (first_column + local) / RATE - first_column / RATE;
        const u32 place = halos + (local + segment * BEFORE) * PITCH + (lane >> 4) * 16;
        const int column = first_column + warp * 16 + lane / 4;
#if !FUSED
        Residual<N> addend;
        addend.load(given, column, channel);
#endif
        float acc[N / 2];
        int is_later = 0;
        if (RESIDENT) weight = Position();
#pragma unroll 1
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            await_barrier(halo_full + 8 * halo.stage, halo.parity);
            const u32 columns = place + halo.stage * HALO_BYTES;
            u32 a[2][KC / 16][4];
            int previous = 0;
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
                for (int k = 0; k < KC / 16; ++k) load_fragment(a[tap & 1][k], columns + tap * DIL * PITCH + k * 32);
                await_barrier(full + 8 * weight.stage, weight.parity);
                const u64 b = descriptor(weights + weight.stage * STAGE_BYTES, N / 8 * 128);
                fence_products();
#pragma unroll
                for (int k = 0; k < KC / 16; ++k) {
                    product_first(acc, a[tap & 1][k], b + k * (2 * N / 8 * 128 >> 4), is_later);
                    is_later = 1;
                }
                commit_products();
                if (tap > 0) {
                    await_products<1>();
                    if (!RESIDENT && lane == 0) arrive(empty + 8 * previous);
                }
                previous = weight.stage;
                weight.advance<NUM_STAGES>();
            }
            await_products<0>();
            pin(acc);
            if (lane == 0) {
                if (!RESIDENT) arrive(empty + 8 * previous);
                arrive(halo_empty + 8 * halo.stage);
            }
            halo.advance<HALOS>();
        }
#if FUSED
        u32 hidden[N / 16][4];
        const int quarter = lane & 3;
#pragma unroll
        for (int group = 0; group < N / 32; ++group) {
            const int first = 32 * group + 8 * quarter;
            const Eight bias(given.bias + first), frequency(given.frequency + first), amplitude(given.amplitude + first);
#pragma unroll
            for (int block = 0; block < 4; ++block) {
                const int n8 = group * 4 + block;
                float v[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const int at = 2 * block + k % 2;
                    v[k] = snake_of(acc[n8 * 4 + k] + bias.v[at], frequency.v[at], amplitude.v[at]);
                }
                hidden[n8 / 2][2 * (n8 % 2)] = narrowed(v[0], v[1]);
                hidden[n8 / 2][2 * (n8 % 2) + 1] = narrowed(v[2], v[3]);
            }
        }
#pragma unroll
        for (int part = 0; part < SECOND_STAGES; ++part) {
            Residual<N2> addend;
            addend.load(given, column, part * N2);
            float second[N2 / 2];
            await_barrier(full + 8 * weight.stage, weight.parity);
            const u64 b = descriptor(weights + weight.stage * STAGE_BYTES, N2 / 8 * 128);
            fence_products();
#pragma unroll
            for (int k = 0; k < N / 16; ++k) product_second(second, hidden[k], b + k * (2 * N2 / 8 * 128 >> 4), k > 0);
            commit_products();
            await_products<0>();
            pin(second);
            if (!RESIDENT && lane == 0) arrive(empty + 8 * weight.stage);
            weight.advance<NUM_STAGES>();
            end_sum<N2>(given, second, addend, column, part * N2);
        }
#else
        end_sum<N>(given, acc, addend, column, channel);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMER_WARPS * 32 + 128, 1) codec_conv(const __grid_constant__ Arguments given) {
    extern __shared__ __align__(1024) char shared[];
    const u32 start = shared_address(shared);
    const u32 full = start + Layout::barriers, empty = full + 8 * NUM_STAGES;
    const u32 halo_full = empty + 8 * NUM_STAGES, halo_empty = halo_full + 8 * HALOS;
    const int num_tiles = (given.num_columns + COLS - 1) / COLS * N_TILES;
    if (threadIdx.x == 0) {
        for (int each = 0; each < NUM_STAGES; ++each) {
            init_barrier(full + 8 * each, 1);
            init_barrier(empty + 8 * each, CONSUMER_WARPS);
        }
        for (int each = 0; each < HALOS; ++each) {
            init_barrier(halo_full + 8 * each, LOADERS);
            init_barrier(halo_empty + 8 * each, CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (warp < CONSUMER_WARPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        asm volatile("griddepcontrol.wait;" ::: "memory");
        compute(given, start + Layout::weights, start + Layout::halos, full, empty, halo_full, halo_empty, num_tiles);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == CONSUMER_WARPS) {  // weights are constant: no wait for earlier kernels
            if (threadIdx.x % 32 == 0) load_weights(given, start + Layout::weights, full, empty, num_tiles);
            __syncwarp();
            asm volatile("griddepcontrol.wait;" ::: "memory");
        } else {
            asm volatile("griddepcontrol.wait;" ::: "memory");
            asm volatile("griddepcontrol.launch_dependents;");
            if (warp == CONSUMER_WARPS + 3)
                keep_columns(given);
            else
                load_columns(given, start + Layout::halos, reinterpret_cast<const u16**>(shared + Layout::sources), halo_full,
                             halo_empty, num_tiles);
        }
    }
}

// All inner codes of a frame in one launch: sixteen passes of a small transformer and fifteen draws, in
// blocks that stay on the device's multiprocessors. Weights stream without a pause; what blocks wait for is
// each other's numbers, and nothing else.
//
// A block makes the same outputs of each product for all rows. Pass p is over position p of each row: the
// state that the first code was drawn from, then the codes so far. The first pass ends with the keys and
// values of the last layer.

constexpr int MAX_ROWS = COLUMNS;
constexpr int STEPS_OF_HIDDEN = HIDDEN / 16 / NUM_WARPS;  // instructions of a warp
constexpr int STEPS_OF_HEADS = NUM_HEADS * HEAD_DIM / 16 / NUM_WARPS;
constexpr int STEPS_OF_INNER = INNER / 16 / NUM_WARPS;
constexpr int NUM_JOINED = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM;
constexpr int JOINED = NUM_JOINED / BLOCKS, OWN = HIDDEN / BLOCKS, GATED = INNER / BLOCKS,
              LOGITS = VOCAB / BLOCKS;
constexpr int STAGES_OF_JOINED = JOINED * HIDDEN * 2 / STAGE_BYTES,
              STAGES_OF_OUTPUT = OWN * NUM_HEADS * HEAD_DIM * 2 / STAGE_BYTES;
constexpr int STAGES_OF_GATED = 2 * GATED * HIDDEN * 2 / STAGE_BYTES,
              STAGES_OF_DOWN = OWN * INNER * 2 / STAGE_BYTES;
constexpr int STAGES_OF_LAYER = STAGES_OF_JOINED + STAGES_OF_OUTPUT + STAGES_OF_GATED + STAGES_OF_DOWN;
constexpr int STAGES_OF_HEAD = LOGITS * HIDDEN * 2 / STAGE_BYTES;
static_assert(OWN == 8 && JOINED % 16 == 0 && 2 * GATED % 16 == 0 && LOGITS == 16,
              "how outputs are shared out");
static_assert((NUM_GROUPS + 1) * (LAYERS + 1) < 128 && NUM_GROUPS < MAX_POSITIONS, "marks of a launch");
constexpr int ROW_BLOCKS = BLOCKS / MAX_ROWS;  // from the block that draws for a row to that of the next row

// Where buffers of packets begin, in packets of 8 bytes.
//
// Who writes a buffer knows that its readers are done. A block puts its part of a product after a barrier of
// all its warps; so a packet says that its block has taken all inputs of that product, and of all before it.
// - LAYER_INPUTS: `lower` has taken LIFTED of all blocks, which were past `join_heads` by then; who draws has
//   taken the row's logits of all blocks, which were past `make_logits`.
// - MIDDLE_INPUTS, ATTENDED, LIFTED: who writes them has taken the layer's inputs, or what descends from
//   them. These were put by all blocks, or drawn from logits of all blocks, after the layer before. In the
//   second pass, whose inputs are given, it is the inputs of the first pass's last layer that say so.
// - LOGIT_PAIRS: what is written descends from embeddings, which were put when the logits before were taken.
// - HEADS: likewise, but what the first pass attends in its last layer is not waited for, and the second pass
//   begins at once. So there are two, for products in turn.
constexpr int LAYER_INPUTS = 0, MIDDLE_INPUTS = LAYER_INPUTS + HIDDEN / 2 * COLUMNS;
constexpr int ATTENDED = MIDDLE_INPUTS + HIDDEN / 2 * COLUMNS,
              LIFTED = ATTENDED + NUM_HEADS * HEAD_DIM / 2 * COLUMNS;
constexpr int HEADS = LIFTED + INNER / 2 * COLUMNS, LOGIT_PAIRS = HEADS + 2 * NUM_JOINED / 2 * COLUMNS;

struct Model {
    const char*
        weights;  // [blocks, layers, stages of a layer] of STAGE_BYTES; norms before products are in them
    const char* heads;      // [groups, blocks, stages of a head]
    const u16* head_norms;  // [layers, 2, HEAD_DIM], of queries and of keys
    const u16* cosines;     // [MAX_POSITIONS, HEAD_DIM]
    const u16* sines;
    const u16* const* tables;  // embeddings of each group but the last, [codes, HIDDEN]
    u64* packets;
    u32* launches;  // how many there were
    float epsilon, head_epsilon;
};

struct Rows {
    const u16* states;  // [rows, HIDDEN]
    i64* codes;         // the first one of each row is there
    float* scores;
    const float* noise;  // [rows, groups, VOCAB]
    const float* temperature;
    const i64* top_k;
    const float* top_p;
    int num_rows, state_stride, code_stride, score_stride, noise_stride, temperature_stride, top_k_stride,
        top_p_stride;
    u32 zero;
};

struct Shared {
    KeptHeads kept;
    // Sums of warps. Products in turn have theirs in one and in the other: one barrier a product is enough.
    alignas(16) float many[NUM_WARPS * WARP_STRIDE<2 * GATED>];
    alignas(16) float few[NUM_WARPS * WARP_STRIDE<OWN>];
    float squares[NUM_WARPS * COLUMNS];
    Drawing drawing;
    Parameters how;  // of the row for which this block draws
    u64 full[NUM_STAGES], empty[NUM_STAGES];
};

// Never 0, with which buffers begin. Marks come again after 2**25 launches, which does no harm: the first one
// that a launch waits for in a buffer is another than the last one that a launch leaves there.
DEVICE u32 mark_of(u32 launch, int pass, int layer) { return launch * 128 + pass * (LAYERS + 1) + layer + 1; }

// The warp that has weights copied, in the order in which the others use them.
DEVICE void stream_weights(const Ring& ring, const Model& model) {
    if (threadIdx.x % 32) return;
    Copier copier{ring, ring, 0};
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    u64 kept;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(kept));
    const char* own = model.weights + static_cast<i64>(blockIdx.x) * LAYERS * STAGES_OF_LAYER * STAGE_BYTES;
    for (int pass = 0; pass <= NUM_GROUPS; pass++) {
        const int num_stages =
            pass == 0 ? (LAYERS - 1) * STAGES_OF_LAYER + STAGES_OF_JOINED : LAYERS * STAGES_OF_LAYER;
        for (int i = 0; i < num_stages; i++)
            copier.copy(own + static_cast<i64>(i) * STAGE_BYTES, i < KEPT_STAGES ? kept : policy);
        if (pass == 0) continue;
        const char* head =
            model.heads + (static_cast<i64>(pass - 1) * BLOCKS + blockIdx.x) * STAGES_OF_HEAD * STAGE_BYTES;
        for (int i = 0; i < STAGES_OF_HEAD; i++) copier.copy(head + i * STAGE_BYTES, policy);
    }
}

struct Block {
    const Model& model;
    const Rows& rows;
    Shared& shared;
    Ring ring;
    u32 launch;
    int warp, lane;
    bool has_column;    // whether this lane holds inputs of a row
    float residual[2];  // of two outputs and a column, in threads that add them up

    DEVICE u64* packets(int buffer) const { return model.packets + buffer; }

    // The input of the first two passes, of a pair.
    DEVICE u32 given(int pass, int row, int pair) const {
        if (pass == 0) return load_pair(rows.states + static_cast<i64>(row) * rows.state_stride, pair);
        const i64 code = rows.codes[static_cast<i64>(row) * rows.code_stride];
        return load_pair(model.tables[0] + code * HIDDEN, pair);
    }

    // Products with a norm before them: a warp's inputs are looked at, and weights taken until they are
    // there.
    template <int COUNT>
    DEVICE void take_states(Inputs<STEPS_OF_HIDDEN>& inputs, uint4 (&weights)[COUNT], int buffer, u32 mark) {
        const u64* place = Inputs<STEPS_OF_HIDDEN>::place_of(packets(buffer), warp * STEPS_OF_HIDDEN);
        inputs.look(place, has_column);
        ring.take(weights);
        inputs.wait(place, mark, has_column);
        keep_squares(shared.squares, inputs);
    }
    template <int COUNT>
    DEVICE void take_given(Inputs<STEPS_OF_HIDDEN>& inputs, uint4 (&weights)[COUNT], int pass) {
#pragma unroll
        for (int i = 0; i < STEPS_OF_HIDDEN; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                inputs.found[i][j] =
                    has_column ? given(pass, lane / 4, (warp * STEPS_OF_HIDDEN + i) * 8 + j * 4 + lane % 4)
                               : 0;
        ring.take(weights);
        keep_squares(shared.squares, inputs);
    }

    DEVICE void join_heads(int pass, int layer) {
        uint4 weights[JOINED / 16 * STEPS_OF_HIDDEN];
        Inputs<STEPS_OF_HIDDEN> inputs;
        if (layer > 0 || pass > 1)
            take_states(inputs, weights, LAYER_INPUTS, mark_of(launch, pass, layer));
        else
            take_given(inputs, weights, pass);
        float sums[JOINED / 16][4] = {};
        multiply_tiles<JOINED / 16, STEPS_OF_HIDDEN>(sums, weights, inputs);
        keep_sums<JOINED>(shared.many, sums);
        wait_threads(1, NUM_THREADS);
        const Adder adder;
        if (adder.turn >= JOINED / 2) return;
        float two[2];
        adder.add<JOINED>(two, shared.many);
        const float divisor = adder.divisor(shared.squares, HIDDEN, model.epsilon);
        if (adder.share > 0 || adder.column >= rows.num_rows) return;
        u64* heads = heads_of(pass, layer, adder.column) + blockIdx.x * (JOINED / 2) + adder.turn;
        put(heads, packed(two[0] * divisor, two[1] * divisor), mark_of(launch, pass, layer));
    }
    DEVICE u64* heads_of(int pass, int layer, int row) const {
        return packets(HEADS) + ((pass * LAYERS + layer) % 2 * COLUMNS + row) * (NUM_JOINED / 2);
    }

    // A block attends for one row and one head of keys and values, if there is such a row.
    DEVICE void attend_own(int pass, int layer) {
        const int row = blockIdx.x / NUM_KV_HEADS % MAX_ROWS, kv_head = blockIdx.x % NUM_KV_HEADS;
        if (blockIdx.x >= MAX_ROWS * NUM_KV_HEADS || row >= rows.num_rows || warp >= ATTENDING) return;
        const Rotary rotary{model.cosines, model.sines};
        attend(shared.kept, heads_of(pass, layer, row), mark_of(launch, pass, layer), kv_head, layer, pass,
               model.head_norms + layer * 2 * HEAD_DIM, rotary, model.head_epsilon,
               pass > 0 || layer < LAYERS - 1, packets(ATTENDED), row);
    }

    // Add a product of few outputs to the states, and tell all blocks.
    template <int STEPS>
    DEVICE void add(int source, u32 source_mark, int target, u32 mark, int pass, bool is_first) {
        uint4 weights[STEPS / 2];
        Inputs<STEPS> inputs;
        const u64* place = Inputs<STEPS>::place_of(packets(source), warp * STEPS);
        inputs.look(place, has_column);
        ring.take(weights);
        inputs.wait(place, source_mark, has_column);
        float sums[1][4] = {};
        multiply_half<STEPS>(sums, weights, inputs);
        keep_sums<OWN>(shared.few, sums);
        wait_threads(1, NUM_THREADS);
        const Adder adder;
        if (adder.turn >= OWN / 2) return;
        float two[2];
        adder.add<OWN>(two, shared.few);
        if (adder.share > 0 || adder.column >= rows.num_rows) return;
        const int output = blockIdx.x * OWN + 2 * adder.turn;
        if (is_first) {
            const u32 before = pass > 1 ? take(input_place(packets(LAYER_INPUTS), output, adder.column),
                                               mark_of(launch, pass, 0))
                                        : given(pass, adder.column, output / 2);
            residual[0] = low(before), residual[1] = high(before);
        }
        const u32 sum = packed(residual[0] + two[0], residual[1] + two[1]);
        residual[0] = low(sum), residual[1] = high(sum);
        put(input_place(packets(target), output, adder.column), sum, mark);
    }

    DEVICE void output(int pass, int layer) {
        const u32 mark = mark_of(launch, pass, layer);
        add<STEPS_OF_HEADS>(ATTENDED, mark, MIDDLE_INPUTS, mark, pass, layer == 0);
    }

    DEVICE void lift(int pass, int layer) {
        uint4 weights[2 * GATED / 16 * STEPS_OF_HIDDEN];
        Inputs<STEPS_OF_HIDDEN> inputs;
        const u32 mark = mark_of(launch, pass, layer);
        take_states(inputs, weights, MIDDLE_INPUTS, mark);
        float sums[2 * GATED / 16][4] = {};
        multiply_tiles<2 * GATED / 16, STEPS_OF_HIDDEN>(sums, weights, inputs);
        keep_sums<2 * GATED>(shared.many, sums);
        wait_threads(1, NUM_THREADS);
        const Adder adder;
        if (adder.turn >= GATED / 2) return;
        float four[4];  // two gates, and two that they are for
        adder.add<2 * GATED>(four, shared.many);
        const float divisor = adder.divisor(shared.squares, HIDDEN, model.epsilon);
        if (adder.share > 0 || adder.column >= rows.num_rows) return;
        float lifted[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float gate = four[i] * divisor;
            lifted[i] = __fdividef(gate, 1.f + __expf(-gate)) * (four[2 + i] * divisor);
        }
        put(input_place(packets(LIFTED), blockIdx.x * GATED + 2 * adder.turn, adder.column),
            packed(lifted[0], lifted[1]), mark);
    }

    DEVICE void lower(int pass, int layer) {
        add<STEPS_OF_INNER>(LIFTED, mark_of(launch, pass, layer), LAYER_INPUTS,
                            mark_of(launch, pass, layer + 1), pass, false);
    }

    DEVICE void make_logits(int pass) {
        uint4 weights[LOGITS / 16 * STEPS_OF_HIDDEN];
        Inputs<STEPS_OF_HIDDEN> inputs;
        const u32 mark = mark_of(launch, pass, LAYERS);
        take_states(inputs, weights, LAYER_INPUTS, mark);
        float sums[1][4] = {};
        multiply_tiles<1, STEPS_OF_HIDDEN>(sums, weights, inputs);
        keep_sums<LOGITS>(shared.many, sums);
        wait_threads(1, NUM_THREADS);
        const Adder adder;
        if (adder.turn >= LOGITS / 2) return;
        float two[2];
        adder.add<LOGITS>(two, shared.many);
        const float divisor = adder.divisor(shared.squares, HIDDEN, model.epsilon);
        if (adder.share > 0 || adder.column >= rows.num_rows) return;
        u64* logits =
            packets(LOGIT_PAIRS) + adder.column * (VOCAB / 2) + blockIdx.x * (LOGITS / 2) + adder.turn;
        put(logits, packed(two[0] * divisor, two[1] * divisor), mark);
    }

    // The block of a row draws its code, and tells all blocks the embedding.
    DEVICE void draw_own(int pass) {
        const int row = blockIdx.x / ROW_BLOCKS;
        if (blockIdx.x % ROW_BLOCKS != ROW_BLOCKS - 1 || row >= rows.num_rows) return;
        const float* noise = rows.noise + static_cast<i64>(row) * rows.noise_stride + (pass - 1) * VOCAB;
        const u64* logits = packets(LOGIT_PAIRS) + row * (VOCAB / 2);
        float score;
        const u32 code =
            draw(shared.drawing, logits, mark_of(launch, pass, LAYERS), noise, shared.how, score);
        if (threadIdx.x == 0) {
            rows.codes[static_cast<i64>(row) * rows.code_stride + pass] = code;
            rows.scores[static_cast<i64>(row) * rows.score_stride + pass] = score;
        }
        if (pass == NUM_GROUPS) return;
        static_assert(HIDDEN / 2 == NUM_THREADS, "a pair a thread");
        const u32 pair = load_pair(model.tables[pass] + static_cast<i64>(code) * HIDDEN, threadIdx.x);
        put(input_place(packets(LAYER_INPUTS), 2 * threadIdx.x, row), pair, mark_of(launch, pass + 1, 0));
    }

    DEVICE void run() {
        for (int pass = 0; pass <= NUM_GROUPS; pass++) {
            for (int layer = 0; layer < LAYERS; layer++) {
                join_heads(pass, layer);
                attend_own(pass, layer);
                if (pass == 0 && layer == LAYERS - 1) {
                    wait_threads(1, NUM_THREADS);  // the next product's sums go to the same place
                    break;
                }
                output(pass, layer);
                lift(pass, layer);
                lower(pass, layer);
            }
            if (pass == 0) continue;
            // The next sums go to the same place without a barrier: what they are made of has come only after
            // all sums of these logits were read and put.
            make_logits(pass);
            draw_own(pass);
        }
    }
};

extern "C" __global__ void __launch_bounds__(NUM_THREADS + 32, 1)
    inner_codes(const Model model, const Rows rows) {
    extern __shared__ __align__(1024) char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory + NUM_STAGES * STAGE_BYTES);
    Ring ring{
        shared_address(shared.full), shared_address(shared.empty), shared_address(memory), rows.zero, 0, 0};
    const u32 launch = *reinterpret_cast<volatile u32*>(model.launches) + 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < NUM_STAGES; i++) {
            init_barrier(ring.full + i * 8, 1);
            init_barrier(ring.empty + i * 8, NUM_WARPS);
        }
        const int row = blockIdx.x / ROW_BLOCKS;
        if (row < rows.num_rows)
            shared.how = Parameters{rows.temperature[static_cast<i64>(row) * rows.temperature_stride],
                                    rows.top_p[static_cast<i64>(row) * rows.top_p_stride],
                                    static_cast<int>(rows.top_k[static_cast<i64>(row) * rows.top_k_stride])};
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= NUM_THREADS) {
        stream_weights(ring, model);
        return;
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Block block{model, rows, shared, ring, launch, warp, lane, lane / 4 < rows.num_rows, {0.f, 0.f}};
    block.run();
    // All blocks have begun, and know the number of this launch: what this one has seen depends on all of
    // them.
    if (blockIdx.x == 0 && threadIdx.x == 0) *model.launches = launch;
}

extern "C" __device__ const int inner_codes_shared_bytes = NUM_STAGES * STAGE_BYTES + sizeof(Shared);

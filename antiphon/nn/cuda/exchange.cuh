// What blocks of a resident program tell each other: packets of two numbers and the mark of their turn.
//
// A packet is 8 bytes, which are written and read as one. Who waits for it reads it until it has the mark, so
// that no fence and no barrier over the grid is needed. A buffer is written again only by a block that knows
// its readers to be done, from other packets which they have put since (inner_codes.cu tells of each buffer).
//
// Inputs of products are laid out as matrix instructions take them: of 16 inputs in turn and a column n, lane
// 4 * n + q holds the pairs of inputs 2q and 2q + 8; these are two packets in turn.

constexpr int COLUMNS = 8;

DEVICE u64 packet(u32 pair, u32 mark) { return static_cast<u64>(mark) << 32 | pair; }
DEVICE bool has_come(u64 packet, u32 mark) { return static_cast<u32>(packet >> 32) == mark; }

DEVICE void put(u64* place, u32 pair, u32 mark) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(packet(pair, mark)) : "memory");
}
DEVICE u64 look(const u64* place) {
    u64 found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(place) : "memory");
    return found;
}
DEVICE void look_at_two(const u64* place, u64& first, u64& second) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(place)
                 : "memory");
}

// A block that waits for some seconds waits in vain: the launch fails, instead of holding the device for
// ever.
constexpr u32 MAX_LOOKS = 1u << 24;
DEVICE void count_look(u32& looks) {
    if (++looks > MAX_LOOKS) asm volatile("trap;");
}

DEVICE u32 take(const u64* place, u32 mark) {
    u32 looks = 0;
    u64 found = look(place);
    while (!has_come(found, mark)) {
        count_look(looks);
        found = look(place);
    }
    return static_cast<u32>(found);
}
DEVICE void take_two(const u64* place, u32 mark, u32& pair, u32& other) {
    u32 looks = 0;
    u64 first, second;
    look_at_two(place, first, second);
    while (!has_come(first, mark) || !has_come(second, mark)) {
        count_look(looks);
        look_at_two(place, first, second);
    }
    pair = static_cast<u32>(first);
    other = static_cast<u32>(second);
}

// Two packets that are some packets apart.
DEVICE void take_apart(const u64* place, int distance, u32 mark, u32& pair, u32& other) {
    u32 looks = 0;
    u64 first = look(place), second = look(place + distance);
    while (!has_come(first, mark) || !has_come(second, mark)) {
        count_look(looks);
        first = look(place), second = look(place + distance);
    }
    pair = static_cast<u32>(first);
    other = static_cast<u32>(second);
}

// Where the pair of inputs k and k + 1 of a column stands.
DEVICE u64* input_place(u64* buffer, int k, int column) {
    const int lane = column * 4 + (k % 8) / 2;
    return buffer + (k / 16 * 32 + lane) * 2 + k % 16 / 8;
}

// Inputs of STEPS instructions in turn, which are looked at once when there is other work to do, and waited
// for later. Lanes without a column have zeros.
template <int STEPS>
struct Inputs {
    u64 found[STEPS][2];

    DEVICE static const u64* place_of(const u64* buffer, int step) {
        return buffer + (step * 32 + threadIdx.x % 32) * 2;
    }

    DEVICE void look(const u64* place, bool is_there) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            found[i][0] = found[i][1] = 0;
            if (is_there) look_at_two(place + i * 64, found[i][0], found[i][1]);
        }
    }
    DEVICE bool has_come(int i, u32 mark) const {
        return ::has_come(found[i][0], mark) && ::has_come(found[i][1], mark);
    }

    // The first packets of the first column are waited for alone: many that look at all of them would be in
    // the way of those who write.
    DEVICE void wait(const u64* place, u32 mark, bool is_there) {
        bool is_complete = true;
#pragma unroll
        for (int i = 0; i < STEPS; i++) is_complete = is_complete && (has_come(i, mark) || !is_there);
        if (__all_sync(~0u, is_complete)) return;
        u32 looks = 0;
        u64 first = 0, second = 0;
        if (threadIdx.x % 32 < 4)
            while (!::has_come(first, mark) || !::has_come(second, mark)) {
                count_look(looks);
                look_at_two(place, first, second);
            }
        __syncwarp();
        while (!is_complete) {
            count_look(looks);
            is_complete = true;
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                if (!has_come(i, mark)) look_at_two(place + i * 64, found[i][0], found[i][1]);
#pragma unroll
            for (int i = 0; i < STEPS; i++) is_complete = is_complete && has_come(i, mark);
        }
        __syncwarp();
    }
    DEVICE u32 pair(int step, int half) const { return static_cast<u32>(found[step][half]); }
};

// What all parts of a resident program use: numbers, barriers of a block, bulk copies, matrix instructions.
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE __device__ __forceinline__
#define INFINITE __int_as_float(0x7F800000)

// bfloat16 numbers, two a word.
DEVICE float low(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float high(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }
DEVICE u32 packed(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
DEVICE float rounded(float number) { return low(packed(number, 0.f)); }
DEVICE u32 load_pair(const u16* numbers, i64 pair) {
    return __ldg(reinterpret_cast<const u32*>(numbers) + pair);
}

DEVICE float warp_sum(float number) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) number += __shfl_xor_sync(~0u, number, step);
    return number;
}

DEVICE u32 shared_address(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }
DEVICE void wait_threads(int barrier, int num_threads) {
    __syncwarp();  // the instruction is for whole warps
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}

// Wait for the kernel before, then let the next one start.
DEVICE void await_others() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Barriers in shared memory that count bytes which have arrived, or warps which are done.
DEVICE void init_barrier(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
DEVICE void expect_bytes(u32 barrier, u32 num_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(num_bytes)
                 : "memory");
}
DEVICE void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE bool has_turned(u32 barrier, u32 parity) {
    u32 done;
    asm volatile(
        "{.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done != 0;
}
DEVICE void await_barrier(u32 barrier, u32 parity) {
    while (!has_turned(barrier, parity)) {
    }
}
struct __align__(64) TensorMap {
    char bytes[128];
};
DEVICE bool is_elected() {  // one lane of a warp, known to be one when code is generated
    u32 is_one;
    asm volatile("{.reg .pred p;\n elect.sync _|p, 0xFFFFFFFF;\n selp.u32 %0, 1, 0, p;}" : "=r"(is_one));
    return is_one;
}
DEVICE void copy_bulk(u32 target, const void* source, u32 num_bytes, u32 barrier, u64 policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1], %2, [%3], %4;" ::"r"(target),
        "l"(source), "r"(num_bytes), "r"(barrier), "l"(policy)
        : "memory");
}

// sums[16 outputs, 8 columns] += weights[16, 16] @ inputs[16, 8]
DEVICE void multiply(float (&sums)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

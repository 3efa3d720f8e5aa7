// How the lanes of a warp share work. GROUP lanes serve one scope, so that SCOPES scopes share a warp; lanes that are
// left over belong to no scope, but take part in every exchange between lanes, because all of these name all 32 lanes.
//
// Compiled for the GPU by CuPy, and by a C++ compiler in tests, which define what CUDA defines.

typedef long long i64;
typedef unsigned long long u64;

#define EVERYONE 0xffffffffu

#ifndef WARP
#define WARP 32
#endif
#ifndef SHARED_MEMORY
#define SHARED_MEMORY(NAME) extern __shared__ __align__(16) double NAME[]
#endif

constexpr int SCOPES = WARP / GROUP;
constexpr double TIE = 1e-12;             // core.TIE
constexpr double LARGEST_SQUARE = 1e14;   // kernels.ridge.LARGEST_SQUARE
constexpr double LARGEST_FLOAT = 1.7976931348623157e308;
constexpr int NONE = 0x7fffffff;

__device__ __forceinline__ int warp_lane() { return threadIdx.x % WARP; }
__device__ __forceinline__ int group_of_lane() { return warp_lane() / GROUP; }
__device__ __forceinline__ int group_lane() { return warp_lane() % GROUP; }

__device__ __forceinline__ bool is_finite(double value) { return fabs(value) <= LARGEST_FLOAT; }

constexpr int FIRST_STEP = GROUP > 16 ? 16 : GROUP > 8 ? 8 : GROUP > 4 ? 4 : GROUP > 2 ? 2 : 1;

// Combine one value of every lane of a group; all lanes get the result.
#define COMBINE(TYPE, NAME, RULE)                                                                 \
    __device__ __forceinline__ TYPE NAME(TYPE mine) {                                             \
        const int lane = warp_lane(), place = group_lane();                                       \
        if constexpr (GROUP == 1) {                                                               \
            return mine;                                                                          \
        } else if constexpr ((GROUP & (GROUP - 1)) == 0) {                                        \
            _Pragma("unroll") for (int step = GROUP / 2; step > 0; step /= 2) {                   \
                const TYPE other = __shfl_sync(EVERYONE, mine, lane ^ step);                      \
                mine = RULE;                                                                      \
            }                                                                                     \
            return mine;                                                                          \
        } else {                                                                                  \
            _Pragma("unroll") for (int step = FIRST_STEP; step > 0; step /= 2) {                  \
                const TYPE other = __shfl_sync(EVERYONE, mine, (lane + step) % WARP);             \
                if (place < step && place + step < GROUP) mine = RULE;                            \
            }                                                                                     \
            return __shfl_sync(EVERYONE, mine, lane - place);                                     \
        }                                                                                         \
    }

COMBINE(double, group_sum, (mine + other))
COMBINE(double, group_max, (other > mine ? other : mine))
COMBINE(int, group_min, (other < mine ? other : mine))

__device__ __forceinline__ bool group_any(bool mine) {
    const unsigned found = __ballot_sync(EVERYONE, mine);
    const unsigned members = GROUP == WARP ? EVERYONE : ((1u << (GROUP % WARP)) - 1u) << (warp_lane() - group_lane());
    return (found & members) != 0u;
}

// Keeps the compiler from loading all of a matrix into registers before a loop that reads it from shared memory.
#ifdef __CUDA_ARCH__
#define READ_AGAIN asm volatile("" ::: "memory")
#else
#define READ_AGAIN
#endif

// Copies into shared memory that run beside computation: start some, `send` them, `arrived<left>` waits until at most
// `left` of those sent are under way.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ void start8(double* to, const double* from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void start16(double* to, const double* from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void send() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#else
__device__ inline void start8(double* to, const double* from) { to[0] = from[0]; }
__device__ inline void start16(double* to, const double* from) { to[0] = from[0], to[1] = from[1]; }
__device__ inline void send() {}
template <int LEFT>
__device__ inline void arrived() {}
#endif

// Lanes of a group copy `count` numbers that start at a multiple of 16 bytes, `count` being even.
__device__ __forceinline__ void start_pairs(double* to, const double* from, int count) {
    for (int i = 2 * group_lane(); i < count; i += 2 * GROUP) start16(to + i, from + i);
}

// Copy numbers that may start at any multiple of 8 bytes; returns where the first one lies. Needs room for one more.
__device__ __forceinline__ const double* start_numbers(double* to, const double* from, int count) {
    const int odd = (int)((u64)from >> 3) & 1;
    to += odd;
    if (odd && count > 0 && group_lane() == 0) start8(to, from);
    const int even = odd + ((count - odd) & ~1);
    for (int i = odd + 2 * group_lane(); i + 1 < count; i += 2 * GROUP) start16(to + i, from + i);
    if (even < count && even >= odd && group_lane() == GROUP - 1) start8(to + even, from + even);
    return to;
}

// Runs CUDA source on the CPU: the lanes of a warp are fibers that take turns at every exchange between lanes.
#include <csetjmp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <ucontext.h>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __constant__ static
#define SHARED_MEMORY(NAME) double* NAME = host::memory

struct double2 {
    double x, y;
};
struct float4 {
    float x, y, z, w;
};

namespace host {
struct Index {
    int x;
};
Index thread, block, grid;
alignas(16) double memory[1 << 16];
constexpr int MOST = 32;
int lane, warp, width = WARP;
bool over[MOST];
char stacks[MOST][1 << 18];
jmp_buf places[MOST], manager;
ucontext_t starts[MOST], first;
char slots[MOST][16];
void (*body)(void*);
void* load;

void barrier() {
    if (WARP == 1) return;
    const int mine = lane;
    if (!_setjmp(places[mine])) _longjmp(manager, 1);
    lane = mine, thread.x = warp * WARP + mine;
}

void enter() {
    body(load);
    over[lane] = true;
    _longjmp(manager, 1);
}

void run_warp() {
    if (WARP == 1) {
        lane = 0, thread.x = warp;
        return body(load);
    }
    static volatile int turn;
    static volatile bool fresh[MOST];
    static volatile int left;
    for (int i = 0; i < width; i++) fresh[i] = true, over[i] = false;
    left = width;
    while (left) {
        left = 0;
        int ended = 0;
        for (turn = 0; turn < width; turn = turn + 1) {
            if (!over[turn] && !_setjmp(manager)) {
                lane = turn, thread.x = warp * WARP + turn;
                if (fresh[turn]) {
                    fresh[turn] = false;
                    getcontext(&starts[turn]);
                    starts[turn].uc_stack.ss_sp = stacks[turn];
                    starts[turn].uc_stack.ss_size = sizeof stacks[turn];
                    starts[turn].uc_link = 0;
                    makecontext(&starts[turn], enter, 0);
                    setcontext(&starts[turn]);
                }
                _longjmp(places[turn], 1);
            }
        }
        for (int i = 0; i < width; i++) over[i] ? (void)ended++ : (void)(left = left + 1);
        if (ended && ended != width) {
            std::fprintf(stderr, "lanes of a warp did not meet at the same exchanges\n");
            std::abort();
        }
    }
}

template <class T>
T* slot(int of) {
    return (T*)slots[of];
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*(A*)values[I]...);
}

template <class... A>
void run(void (*kernel)(A...), int blocks, int warps, void** values) {
    static void (*target)(A...);
    static void** given;
    target = kernel, given = values;
    body = [](void*) { call(target, given, std::index_sequence_for<A...>()); };
    grid.x = blocks;
    for (block.x = 0; block.x < blocks; block.x++)
        for (warp = 0; warp < warps; warp++) run_warp();
}
}  // namespace host

#define threadIdx host::thread
#define blockIdx host::block
#define gridDim host::grid

inline void __threadfence() {}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
inline void __syncwarp() { host::barrier(); }

template <class T>
T __shfl_sync(unsigned, T mine, int from) {
    if (WARP == 1) return mine;
    *host::slot<T>(host::lane) = mine;
    host::barrier();
    const T found = *host::slot<T>(from % WARP);
    host::barrier();
    return found;
}

inline unsigned __ballot_sync(unsigned, bool mine) {
    if (WARP == 1) return mine;
    *host::slot<bool>(host::lane) = mine;
    host::barrier();
    unsigned found = 0;
    for (int i = 0; i < WARP; i++) found |= (unsigned)*host::slot<bool>(i) << i;
    host::barrier();
    return found;
}

inline bool __any_sync(unsigned all, bool mine) { return __ballot_sync(all, mine) != 0; }

// Which instruction sets Highway compiles the kernels for: the compiler's baseline, AVX2 and
// AVX-512 on x86; all that apply elsewhere. Each one more costs a compilation of every kernel.
// Include before any hwy header.
#pragma once

// Highway's own bit numbers of AVX3_SPR, AVX3_ZEN4 and AVX3_DL: not every version names them.
#define HWY_DISABLED_TARGETS ((1LL << 4) | (1LL << 6) | (1LL << 7) | HWY_SSE4 | HWY_SSSE3)

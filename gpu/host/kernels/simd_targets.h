// The instruction sets for which Highway compiles the kernels: the compiler's baseline, AVX2 and
// AVX-512 on x86; all that apply elsewhere. Each further one means compiling every kernel again.
// Include this before any hwy header.
#pragma once

// Highway's bit numbers of AVX3_SPR, AVX3_ZEN4 and AVX3_DL, which some versions do not name.
#define HWY_DISABLED_TARGETS ((1LL << 4) | (1LL << 6) | (1LL << 7) | HWY_SSE4 | HWY_SSSE3)

#ifndef LK_LANCE_CPU_H
#define LK_LANCE_CPU_H
/*
 * cpu.h - compiles a hot function once per vector width; the loader picks the best the processor has.
 * Plain under the sanitizers (whose runtimes start after the loader's choice) and where gcc cannot.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LK_VECTOR __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define LK_VECTOR
#endif

#endif

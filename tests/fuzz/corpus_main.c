/*
 * corpus_main.c - runs a fuzz target without a fuzzer: every file below the directories given, whole, cut short
 * at many places, and with bits flipped by a fixed random sequence. Passing means that nothing crashed.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLIPS = 200, CUTS = 50, FILE_BYTES_MAX = 1 << 20 };

static uint64_t next_random(uint64_t *state) /* xorshift64 */
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The target gets its own allocation of the exact size, so that an overrun is seen. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_variants(uint8_t *data, size_t size)
{
    uint64_t state = 0x9e3779b97f4a7c15U ^ size;
    run(data, size);
    for (size_t cut = 1; cut <= CUTS && size > 0; cut++) {
        run(data, (size_t)(next_random(&state) % size));
    }
    for (size_t flip = 0; flip < FLIPS && size > 0; flip++) {
        size_t  at = (size_t)(next_random(&state) % size);
        uint8_t before = data[at];
        data[at] =
            (uint8_t)(flip % 2 == 0 ? before ^ (1U << (next_random(&state) % 8)) : next_random(&state));
        run(data, size);
        data[at] = before;
    }
}

static size_t run_file(const char *path)
{
    static uint8_t data[FILE_BYTES_MAX];
    FILE          *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    run_variants(data, size);
    return 1;
}

static size_t run_directory(const char *path)
{
    size_t         count = 0;
    DIR           *directory = opendir(path);
    struct dirent *entry = NULL;
    if (directory == NULL) {
        perror(path);
        exit(1);
    }
    while ((entry = readdir(directory)) != NULL) {
        char        name[4096];
        struct stat status;
        if (entry->d_name[0] == '.' ||
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name) {
            continue;
        }
        if (stat(name, &status) == 0) {
            count += S_ISDIR(status.st_mode) ? run_directory(name) : run_file(name);
        }
    }
    (void)closedir(directory);
    return count;
}

int main(int argc, char **argv)
{
    size_t files = 0;
    run_variants((uint8_t[]){0}, 0);
    for (int i = 1; i < argc; i++) {
        files += run_directory(argv[i]);
    }
    printf("%zu seeds\n", files);
    return argc > 1 && files == 0 ? 1 : 0;
}

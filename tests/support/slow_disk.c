/* Makes every flush to disk 20 ms slower: cc -shared -fPIC -o slow_disk.so slow_disk.c -ldl; LD_PRELOAD=./slow_disk.so … */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#define SLOW(name)                                              \
    int name(int file) {                                        \
        static int (*flush)(int);                               \
        if (!flush) flush = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        usleep(20000);                                          \
        return flush(file);                                     \
    }

SLOW(fsync)
SLOW(fdatasync)

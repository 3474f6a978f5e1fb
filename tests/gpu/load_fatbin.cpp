// Loads a fatbin as any C++ program would, through cuModuleLoadData, and runs y = scale * x + bias from it.
// Needs neither the CUDA toolkit nor its headers: the driver's library is opened by name.
// usage: load_fatbin FILE SYMBOL [run]
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <vector>

static void *driver = nullptr;

template <typename F> static F find(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) {
        std::fprintf(stderr, "the driver has no %s\n", name);
        std::exit(3);
    }
    return reinterpret_cast<F>(found);
}

#define CHECK(call)                                                                                                                          \
    do {                                                                                                                                     \
        int result = (call);                                                                                                                 \
        if (result) {                                                                                                                        \
            std::fprintf(stderr, "%s failed with %d\n", #call, result);                                                                      \
            return 1;                                                                                                                        \
        }                                                                                                                                    \
    } while (0)

using Handle = void *;
using Pointer = std::uint64_t;

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: load_fatbin FILE SYMBOL [run]\n");
        return 2;
    }
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    std::ifstream file(argv[1], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

    int device = 0;
    Handle context = nullptr, module = nullptr, function = nullptr;
    CHECK(find<int (*)(unsigned)>("cuInit")(0));
    CHECK(find<int (*)(int *, int)>("cuDeviceGet")(&device, 0));
    CHECK(find<int (*)(Handle *, int)>("cuDevicePrimaryCtxRetain")(&context, device));
    CHECK(find<int (*)(Handle)>("cuCtxSetCurrent")(context));
    CHECK(find<int (*)(Handle *, const void *)>("cuModuleLoadData")(&module, bytes.data()));
    CHECK(find<int (*)(Handle *, Handle, const char *)>("cuModuleGetFunction")(&function, module, argv[2]));
    if (argc > 3) {
        const std::int64_t count = 1000;
        std::vector<float> host(count);
        for (int i = 0; i < count; ++i) host[i] = static_cast<float>(i);
        Pointer x = 0, y = 0;
        const std::size_t size = count * sizeof(float);
        auto allocate = find<int (*)(Pointer *, std::size_t)>("cuMemAlloc_v2");
        CHECK(allocate(&x, size));
        CHECK(allocate(&y, size));
        CHECK(find<int (*)(Pointer, const void *, std::size_t)>("cuMemcpyHtoD_v2")(x, host.data(), size));
        float scale = 2.0f, bias = 0.5f;
        std::int64_t n = count;
        void *arguments[] = {&y, &x, &scale, &bias, &n};
        using Launch = int (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **);
        CHECK(find<Launch>("cuLaunchKernel")(function, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
        CHECK(find<int (*)()>("cuCtxSynchronize")());
        CHECK(find<int (*)(void *, Pointer, std::size_t)>("cuMemcpyDtoH_v2")(host.data(), y, size));
        for (int i = 0; i < count; ++i) {
            if (host[i] != 2.0f * static_cast<float>(i) + 0.5f) {
                std::fprintf(stderr, "y[%d] is %g\n", i, host[i]);
                return 1;
            }
        }
    }
    std::puts("ok");
    return 0;
}

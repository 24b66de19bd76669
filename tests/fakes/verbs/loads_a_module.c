/* Opens queue pairs by a module that is loaded at run time and linked to libibverbs, as UCX's transports are. */
#include <dlfcn.h>
#include <stdio.h>

typedef int open_queue_pairs(int, char **);

int main(int argc, char **argv)
{
    void *module = dlopen(MODULE, RTLD_LAZY | RTLD_LOCAL);
    open_queue_pairs *run = module ? (open_queue_pairs *)dlsym(module, "open_queue_pairs") : 0;
    if (!run) return fprintf(stderr, "%s\n", dlerror()), 3;
    return run(argc, argv);
}

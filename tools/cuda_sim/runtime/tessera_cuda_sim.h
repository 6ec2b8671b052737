/* What the simulated card offers besides CUDA's runtime, for tests and allocators. The symbols are in its
   libcudart alone: a program that also runs on a card looks them up with dlsym(RTLD_DEFAULT, ...). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Findings so far. Operations that nothing has waited for may bring more. */
uint64_t tessera_cuda_sim_findings(void);
/* Findings of one check, by its name ("stream-race"). */
uint64_t tessera_cuda_sim_findings_of(const char* check);
void tessera_cuda_sim_clear_findings(void);
/* Copies the text of all findings, a line each, and ends it with 0. Returns the bytes of the whole text. */
size_t tessera_cuda_sim_text(char* text, size_t bytes);
/* Whether findings are written to stderr as they come (1 at first). */
void tessera_cuda_sim_print(int on);
/* A caching allocator gives a block to a user on `stream`, a cudaStream_t. From there on its bytes are
   undefined; an earlier use that does not come before is a finding. Returns a cudaError_t. */
int tessera_cuda_sim_forget(const void* pointer, size_t bytes, void* stream);
/* Names the allocation that contains the pointer in findings. */
void tessera_cuda_sim_name(const void* pointer, const char* name);
/* One count of a kernel's counters by its name ("load_sectors"), added up over all kernels whose readable
   name contains `kernel`. */
uint64_t tessera_cuda_sim_counter(const char* kernel, const char* counter);
void tessera_cuda_sim_clear_counters(void);

#ifdef __cplusplus
}
#endif

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
/* One count of a kernel's counters by its name ("load_sectors"), added up over all kernels of which the
   readable name contains `kernel`. */
uint64_t tessera_cuda_sim_counter(const char* kernel, const char* counter);
void tessera_cuda_sim_clear_counters(void);

/* For libraries that stand in for CUDA's: an operation on a stream, as a kernel is one. */
typedef struct {
  const void* pointer; /* device memory */
  size_t bytes;
  int writes; /* 0: it is read */
} tessera_cuda_sim_range;

/* Issues `run(data)` on `stream`, a cudaStream_t, or adds it to the stream's capture; then it may run many
   times. Its ranges are checked now for bounds and when it runs for races. `release(data)` follows its last
   run. Returns a cudaError_t; where it is not cudaSuccess, `data` is released. */
int tessera_cuda_sim_operation(const char* name, void* stream, const tessera_cuda_sim_range* ranges,
                               size_t count, void (*run)(void* data), void (*release)(void* data),
                               void* data);

/* What an operation does that waits for partners. All but `release` are called under the runtime's lock. */
typedef struct {
  /* Returns 1 when it has ended, 0 where it must wait. */
  int (*run)(void* data, uint32_t operation);
  /* Gives the operations that it needs, at most `most` of them, returns their number, and sets *missing where
     one is not issued yet. */
  size_t (*partners)(void* data, uint32_t* operations, size_t most, int* missing);
  /* Null where all partners are threads of this process. Else it writes at most `bytes` of text about those
     in other processes, for the report of a deadlock, and returns their number. */
  size_t (*explain)(void* data, char* text, size_t bytes);
  void (*release)(void* data);
} tessera_cuda_sim_callbacks;

/* An operation that waits for partners on other streams, such as a collective's. `*number` becomes the
   operation's number before any other thread runs. Returns a cudaError_t (a stream that captures, a lost
   device). */
int tessera_cuda_sim_meeting(const char* name, void* stream, uint32_t* number,
                             const tessera_cuda_sim_callbacks* callbacks, void* data);
/* Milliseconds without progress, after which a wait for other ranks is a deadlock. */
uint64_t tessera_cuda_sim_patience(void);
/* A meeting's operation reads or writes device memory. 0: the range is not in a live allocation; a finding
   says so. */
int tessera_cuda_sim_access(uint32_t operation, const void* pointer, size_t bytes, int writes,
                            const char* what);
/* This thread issues for a rank (1), or does so no longer (0). */
void tessera_cuda_sim_rank_thread(int on);
/* What partners wait for has changed other than by an operation (an abort). */
void tessera_cuda_sim_announce(void);
/* Reports a finding of a check. */
void tessera_cuda_sim_report(const char* check, const char* message);

#ifdef __cplusplus
}
#endif

// The library's elementwise functions, run by the simulated card and compared with the host: the same bits.
#include "tests/cuda/elementwise_bits.cu"

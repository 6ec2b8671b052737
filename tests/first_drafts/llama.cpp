// clang-format off
#include "llama.h"
int main() { Llama m(Config{}); nn::materialize(m, cpu(), 1); }

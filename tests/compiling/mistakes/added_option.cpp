// expect: fields of these options, in order
#include <tessera/tessera.h>
using namespace tessera;

struct Net : nn::Layer<Net> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in_features = 2, .out_features = 2});
};

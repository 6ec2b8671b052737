#include "autograd/grad_mode.h"

namespace tessera {
namespace {
thread_local bool recording = true;
}

bool grad_mode() {
  return recording;
}

GradMode::GradMode(bool record) : previous_(recording) {
  recording = record;
}
GradMode::~GradMode() {
  recording = previous_;
}

}  // namespace tessera

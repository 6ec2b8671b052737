#include "dist/train/monitors/monitor.h"

namespace tessera::training {

void Monitor::begin(const RunDescription&) {}
void Monitor::histogram(int64_t, const std::string&, const Tensor&) {}
void Monitor::text(int64_t, const std::string&, const std::string&) {}
void Monitor::flush() {}
void Monitor::end() {}
void Monitor::close() {
  flush();
}

}  // namespace tessera::training

// expect: optim::LRScheduler scheduler(optimizer, schedule)
#include <tessera/tessera.h>
using namespace tessera;

void next(const optim::Schedule& schedule) {
  schedule.step();
}

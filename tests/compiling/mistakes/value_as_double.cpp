// expect: double
#include <tessera/tessera.h>
using namespace tessera;

double print(const Variable& loss) {
  double value = loss;  // loss.item()
  return value;
}

// expect: backward
#include <tessera/tessera.h>
using namespace tessera;

struct Cube : autograd::Function<Cube> {
  static Variable forward(AutogradContext* context, const Variable& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
};
Variable cube(const Variable& x) {
  return Cube::apply(x);
}

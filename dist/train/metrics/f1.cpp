#include "dist/train/metrics/f1.h"

namespace tessera::training {
namespace {

double quotient(double a, double b) {
  return b == 0 ? 0.0 : a / b;
}

}  // namespace

double Precision::value_of(const Counts& counts) const {
  return quotient(counts.correct, counts.predicted);
}

double Recall::value_of(const Counts& counts) const {
  return quotient(counts.correct, counts.actual);
}

double F1::value_of(const Counts& counts) const {
  return quotient(2 * counts.correct, counts.predicted + counts.actual);
}

}  // namespace tessera::training

// Refusals, special values and threads of tensor/ops/linalg; results and derivatives are in
// tests/ops/linalg_rows.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tensor/composed/linalg.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no exception of this type";
}

bool contains(const std::string& message, const std::string& part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

/// Values without a pattern, in f64.
Tensor noise(const Shape& shape) {
  Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = std::sin(12.9898 * static_cast<double>(i * i + 1));
  return x;
}

double distance(const Tensor& a, const Tensor& b) {
  return a.numel() == 0 ? 0 : amax(abs(a - b)).item();
}

Tensor transposed(const Tensor& x) {
  return x.transpose(-2, -1);
}

/// |Q^T Q - I|.
double defect(const Tensor& q) {
  return distance(matmul(transposed(q), q), eye(q.size(-1), f64));
}

}  // namespace

TEST_CASE("linalg: a singular matrix is an error that names it") {
  const Tensor regular = eye(2, f64), singular = tensor({{1.0, 2.0}, {2.0, 4.0}}, f64);
  const Tensor batch = stack({regular, singular, singular});
  CHECK(contains(message_of<LinAlgError>([&] { linalg::inv(singular); }),
                 "inv: expected regular matrices; the matrix"));
  CHECK(contains(message_of<LinAlgError>([&] { linalg::inv(batch); }), "matrix (1,) of the batch"));
  CHECK(contains(message_of<LinAlgError>([&] {
                   linalg::solve(batch.reshape({3, 1, 2, 2}), regular);
                 }),
                 "matrix (1, 0) of the batch is singular: element (1, 1) of U is 0"));
  CHECK_THROWS_AS(linalg::inv(singular), ValueError);
  CHECK(linalg::det(batch).select(0, 1).item() == 0);
  CHECK(linalg::slogdet(singular).logabsdet.item() == -std::numeric_limits<double>::infinity());
}

TEST_CASE("linalg: a matrix that is not positive definite is an error that names the leading minor") {
  const Tensor good = eye(3, f64), bad = tensor({{4.0, 2.0, 0.0}, {2.0, 1.0, 0.0}, {0.0, 0.0, 1.0}}, f64);
  CHECK(contains(message_of<LinAlgError>([&] {
                   linalg::cholesky(stack({good, bad}));
                 }),
                 "the leading minor of order 2 of matrix (1,) of the batch is not positive"));
  CHECK_THROWS_AS(linalg::cholesky(good * std::numeric_limits<double>::quiet_NaN()), LinAlgError);
}

TEST_CASE("linalg: values that are not finite are refused where no result exists") {
  const Tensor x = tensor({{1.0, double(NAN)}, {double(NAN), 1.0}}, f64);
  CHECK(contains(message_of<LinAlgError>([&] { linalg::svd(x); }),
                 "svd: expected finite values, the matrix has nan"));
  CHECK_THROWS_AS(linalg::eigh(x), LinAlgError);
  CHECK_THROWS_AS(linalg::matrix_exp(x), LinAlgError);
}

TEST_CASE("linalg: shapes, dtypes and arguments are checked") {
  const Tensor wide = ones({2, 3}, f64), square = eye(2, f64), vector = ones({2}, f64);
  for (const auto& body : std::vector<std::function<void()>>{
           [&] { linalg::cholesky(wide); }, [&] { linalg::lu_factor(wide); }, [&] { linalg::inv(wide); },
           [&] { linalg::det(wide); }, [&] { linalg::eigh(wide); }, [&] { linalg::matrix_exp(wide); },
           [&] { linalg::matrix_power(wide, 2); }, [&] { linalg::solve(wide, vector); }}) {
    CHECK(contains(message_of<ShapeError>(body), "expected square matrices, got (2, 3)"));
  }
  CHECK_THROWS_AS(linalg::svd(vector), ShapeError);
  CHECK_THROWS_AS(linalg::solve(square, ones({3, 2}, f64)), ShapeError);
  CHECK_THROWS_AS(linalg::solve_triangular(square, ones({3, 2}, f64), true), ShapeError);
  CHECK_THROWS_AS(linalg::lstsq(square, ones({3, 2}, f64)), ShapeError);
  CHECK_THROWS_AS(linalg::solve(square, vector, false), ValueError);
  CHECK_THROWS_AS(linalg::qr(square, "full"), ValueError);
  CHECK_THROWS_AS(linalg::eigh(square, "X"), ValueError);
  CHECK_THROWS_AS(linalg::matrix_norm(square, 3), ValueError);
  CHECK_THROWS_AS(linalg::matrix_norm(square, "frob"), ValueError);
  CHECK_THROWS_AS(linalg::multi_dot({square}), ValueError);
  CHECK_THROWS_AS(linalg::cross(square, square), ShapeError);
  CHECK_THROWS_AS(linalg::tensorinv(square, 2), ShapeError);
  CHECK(contains(message_of<DTypeError>([&] { linalg::inv(square.to(bf16)); }),
                 "inv: expected f32 or f64, got"));
  CHECK_THROWS_AS(linalg::solve(square, vector.to(f32)), DTypeError);
}

TEST_CASE("linalg: pivots give the permutation") {
  const Tensor a = tensor({{0.0, 1.0, 2.0}, {4.0, 0.5, 1.0}, {2.0, 3.0, 1.0}}, f64);
  const auto [lu, pivots] = linalg::lu_factor(a);
  CHECK(array_equal(pivots, tensor({2, 3, 3}).to(i32)));
  CHECK(array_equal(linalg::permutation_of(pivots), tensor({1, 2, 0})));
  const auto [p, l, u] = linalg::lu(a);
  CHECK(array_equal(p, linalg::permutation_matrix(pivots, f64)));
  CHECK(distance(matmul(p, matmul(l, u)), a) < 1e-15);
  CHECK_THROWS_AS(linalg::permutation_of(tensor({1, 4, 3}).to(i32)), ValueError);
  CHECK_THROWS_AS(linalg::permutation_of(tensor({1, 2})), DTypeError);
}

TEST_CASE("linalg: factors of larger matrices multiply to the matrix") {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{70, 70}, {90, 40}, {40, 90}}) {
    CAPTURE(m);
    CAPTURE(n);
    const Tensor a = noise({m, n});
    const auto [q, r] = linalg::qr(a, "complete");
    CHECK(defect(q) < 1e-13);
    CHECK(distance(matmul(q, r), a) < 1e-13);
    const auto [u, s, vh] = linalg::svd(a);
    CHECK(u.shape() == Shape{m, m});
    CHECK(vh.shape() == Shape{n, n});
    CHECK(defect(u) < 1e-13);
    CHECK(defect(transposed(vh)) < 1e-13);
    const int64_t k = std::min(m, n);
    CHECK(distance(matmul(u.narrow(1, 0, k) * s, vh.narrow(0, 0, k)), a) < 1e-13);
    if (m != n) continue;
    const Tensor symmetric = a + transposed(a), definite = matmul(a, transposed(a)) + eye(n, f64);
    const auto [w, v] = linalg::eigh(symmetric);
    CHECK(defect(v) < 1e-13);
    CHECK(distance(matmul(symmetric, v), v * w) < 1e-12);
    const Tensor l = linalg::cholesky(definite);
    CHECK(distance(matmul(l, transposed(l)), definite) < 1e-12);
    CHECK(distance(matmul(a, linalg::inv(a)), eye(n, f64)) < 1e-11);
  }
}

TEST_CASE("linalg: repeated and missing singular values") {
  const Tensor zero = zeros({3, 2}, f64);
  const auto [u, s, vh] = linalg::svd(zero, false);
  CHECK(array_equal(s, zeros({2}, f64)));
  CHECK(defect(u) < 1e-15);
  CHECK(defect(transposed(vh)) < 1e-15);
  const Tensor low = matmul(noise({5, 2}), noise({2, 5}));
  const auto [left, values, right] = linalg::svd(low, false);
  CHECK(defect(left) < 1e-13);
  CHECK(defect(transposed(right)) < 1e-13);
  CHECK(distance(matmul(left * values, right), low) < 1e-14);
  CHECK(linalg::matrix_rank(low).item_i64() == 2);
  const auto [w, v] = linalg::eigh(eye(4, f64) * 2.5);
  CHECK(array_equal(w, full({4}, 2.5, f64)));
  CHECK(defect(v) < 1e-15);
  const Tensor huge = noise({3, 3}) * 1e200;
  CHECK(distance(linalg::svdvals(huge) * 1e-200, linalg::svdvals(noise({3, 3}))) < 1e-14);
}

TEST_CASE("linalg: results do not depend on the number of threads") {
  const Tensor a = noise({40, 12, 12}), definite = matmul(a, transposed(a)) + eye(12, f64);
  const auto all = [&] {
    const auto [q, r] = linalg::qr(a);
    const auto [w, v] = linalg::eigh(definite);
    const auto [u, s, vh] = linalg::svd(a);
    return std::vector<Tensor>{q, r, w, v, u, s, vh, linalg::cholesky(definite), linalg::lu_factor(a).LU};
  };
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> one = all();
  set_num_threads(3);
  const std::vector<Tensor> three = all();
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) CHECK(array_equal(one[i], three[i]));
}

TEST_CASE("linalg: f32 is computed in f64 and rounded once") {
  const Tensor a = noise({6, 6}).to(f32);
  CHECK(array_equal(linalg::svdvals(a), linalg::svdvals(a.to(f64)).to(f32)));
  CHECK(array_equal(linalg::cholesky(eye(6) * 2), linalg::cholesky(eye(6, f64) * 2).to(f32)));
}

TEST_CASE("linalg: the order of the fewest operations") {
  // (10 x 100)(100 x 5)(5 x 50): 7,500 operations as (A B) C, 75,000 as A (B C).
  CHECK(linalg::detail::chain_splits({10, 100, 5, 50})[0][2] == 1);
  CHECK(linalg::detail::chain_splits({50, 5, 100, 10})[0][2] == 0);
}

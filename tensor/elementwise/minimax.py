#!/usr/bin/env python3
"""Prints the polynomial coefficients of tensor/elementwise by Remez exchange (needs mpmath).

Each row: the function g that the polynomial approximates, the weight that turns its error into the error
of the final result, the interval, the degree, and the precision that coefficients are rounded to.
The printed bound is the largest weighted error after rounding; run it to check or to change a degree.
"""
import struct
import sys

from mpmath import mp, mpf, matrix, lu_solve, exp, expm1, log, log1p, tanh, atanh, erf, erfc, sin, cos, pi

mp.dps = 60


def remez(g, weight, low, high, degree):
    """Coefficients, lowest power first, of the polynomial with the least max |weight * (p - g)|."""
    low, high = mpf(low), mpf(high)
    n = degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * (i + mpf("0.497")) / n) for i in range(n)]
    grid = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (40 * n)) for i in range(40 * n + 1)]
    grid = [x for x in grid if abs(x) > mpf("1e-9")]
    samples = [(x, g(x), weight(x)) for x in grid]
    for _ in range(12):
        system, right = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(points):
            for power in range(degree + 1):
                system[i, power] = x**power
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = g(x)
        solution = lu_solve(system, right)
        coefficients = [solution[i] for i in range(degree + 1)]
        errors = [w * (mp.polyval(coefficients[::-1], x) - value) for x, value, w in samples]
        extremes = alternation(errors, n)
        if len(extremes) < n:
            break
        points = [grid[i] for i in extremes]
        worst, least = max(abs(errors[i]) for i in extremes), min(abs(errors[i]) for i in extremes)
        if worst < least * mpf("1.02"):
            break
    return coefficients, samples


def alternation(errors, n):
    """The positions of the n largest neighbouring extremes of alternating sign."""
    extremes = []
    for i, e in enumerate(errors):
        if extremes and (errors[extremes[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        else:
            extremes.append(i)
    while len(extremes) > n:
        extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
    return extremes


def rounded(c, precision):
    return mpf(struct.unpack("f", struct.pack("f", c))[0]) if precision == "f32" else mpf(float(c))


ROWS = {
    # exp(r) = 1 + r + r^2 P(r); with this weight expm1's relative error is small too
    "exp f32": (lambda r: (expm1(r) - r) / r**2, lambda r: abs(r), -0.3467, 0.3467, 4, "f32"),
    # the same for a result that is rounded to bf16
    "exp bf16": (lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), -0.3467, 0.3467, 2, "f32"),
    "exp f64": (lambda r: (expm1(r) - r) / r**2, lambda r: abs(r), -0.3467, 0.3467, 10, "f64"),
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    "log f32": (lambda f: (log1p(f) - f + f**2 / 2) / f**3, lambda f: abs(f**3 / log1p(f)), -1 / 3, 1 / 3, 7, "f32"),
    # log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s^2
    "log f64": (lambda z: (2 * atanh(z**0.5) / z**0.5 - 2) / z, lambda z: z / 2, mpf("1e-12"), 0.02945, 7, "f64"),
    # the same with a separate term 2/3, for pow: 2 s + s z (2/3 + z P(z))
    "pow f64": (lambda z: ((2 * atanh(z**0.5) / z**0.5 - 2) / z - mpf(2) / 3) / z, lambda z: z**2 / 2, mpf("1e-12"), 0.02945, 8, "f64"),
    # tanh(x) = x + x z P(z), z = x^2
    "tanh f32": (lambda z: (tanh(z**0.5) / z**0.5 - 1) / z, lambda z: z, mpf("1e-12"), 0.55**2, 4, "f32"),
    "tanh f64": (lambda z: (tanh(z**0.5) / z**0.5 - 1) / z, lambda z: z, mpf("1e-12"), 0.55**2, 11, "f64"),
    # erf(x) = x + x P(z), z = x^2
    "erf f32": (lambda z: erf(z**0.5) / z**0.5 - 1, lambda z: z**0.5 / erf(z**0.5), mpf("1e-12"), 0.93**2, 6, "f32"),
    "erf f64": (lambda z: erf(z**0.5) / z**0.5 - 1, lambda z: z**0.5 / erf(z**0.5), mpf("1e-12"), 1, 13, "f64"),
    # erf(t) = 1 - exp(-t - t P(t)), t above 0.92
    "erf tail f32": (lambda t: -log(erfc(t)) / t - 1, lambda t: erfc(t) * t / erf(t), 0.92, 4, 6, "f32"),
    # erfc(a) = exp(-a^2) P(q) / (1 + 2 a), q = (a - 4) / (a + 4)
    "erfc f64": (lambda q: (1 + 2 * a_of(q)) * exp(a_of(q) ** 2) * erfc(a_of(q)), lambda q: mpf(1), -1, 0.75, 25, "f64"),
    # the normal distribution's upper tail is exp(-a^2/2) P(a); the weight's second term keeps small tails precise
    "normal tail f32": (lambda a: exp(a**2 / 2) * erfc(a / mpf(2) ** 0.5) / 2, lambda a: exp(-(a**2) / 2) + mpf("3e-4"), 0, 5, 11, "f32"),
    # 2^f, for exp(-a^2/2)
    "exp2 f32": (lambda f: mpf(2) ** f, lambda f: mpf(2) ** -f, -0.5, 0.5, 6, "f32"),
    # sin(r) = r + r z P(z); cos(r) = 1 - z/2 + z^2 P(z), z = r^2
    "sin f64": (lambda z: (sin(z**0.5) / z**0.5 - 1) / z, lambda z: z, mpf("1e-12"), 0.62, 6, "f64"),
    "cos f64": (lambda z: (cos(z**0.5) - 1 + z / 2) / z**2, lambda z: z**2, mpf("1e-12"), 0.62, 6, "f64"),
}


def a_of(q):
    return 4 * (1 + q) / (1 - q)


def main(names):
    for name, (g, weight, low, high, degree, precision) in ROWS.items():
        if names and name not in names:
            continue
        coefficients, samples = remez(g, weight, low, high, degree)
        short = [rounded(c, precision) for c in coefficients]
        worst = max(abs(w * (mp.polyval(short[::-1], x) - value)) for x, value, w in samples)
        print(f"{name}: degree {degree}, error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}")
        suffix, digits = ("f", 9) if precision == "f32" else ("", 17)
        for power, c in enumerate(short):
            print(f"  x^{power}: {float(c):.{digits - 1}e}{suffix}")


if __name__ == "__main__":
    main(sys.argv[1:])

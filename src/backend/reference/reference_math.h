#pragma once

#include <cstddef>
#include <span>

#include "backend/arguments.h"

namespace talon::reference {

/// sum of a[i] * b[i]. Eight partial sums in a fixed pattern, so that the compiler may keep them in
/// vector registers.
double dot(const double* a, const double* b, std::size_t count);

/// x / sqrt(mean(x^2) + epsilon) * weight, in place.
void rms_norm(std::span<double> x, const float* weight, double epsilon);

/// exp(x - max) / sum, in place.
void softmax(std::span<double> x);

/// (x - mean) / sqrt(variance + epsilon) * weight + bias, in place. bias may be null.
void layer_norm(std::span<double> x, const float* weight, const float* bias, double epsilon);

/// What linear() does to single values: of a gate `a` is the first half and `b` the second, else
/// `a` is the value. Of the functions with numbers of their own the arguments say these.
double transform(InputTransform transform, double a, double b);
double transform(const LinearArgs& args, double a, double b);
double xielu(const Xielu& function, double x);

/// silu(gate) * up, silu(x) = x / (1 + exp(-x)).
double silu_gate(double gate, double up);

}  // namespace talon::reference

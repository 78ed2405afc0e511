#pragma once

// One unit for each instruction set, compiled with its flags.
namespace talon::sample {

void weigh_avx512(const float* logits, float largest, double temperature, int count,
                  double* weights);
void weigh_avx2(const float* logits, float largest, double temperature, int count, double* weights);
void weigh_portable(const float* logits, float largest, double temperature, int count,
                    double* weights);

}  // namespace talon::sample

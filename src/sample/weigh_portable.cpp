#include "sample/weigh_loop.h"
#include "sample/weigh_units.h"

namespace talon::sample {

void weigh_portable(const float* logits, float largest, double temperature, int count,
                    double* weights) {
  weigh(logits, largest, temperature, count, weights);
}

}  // namespace talon::sample

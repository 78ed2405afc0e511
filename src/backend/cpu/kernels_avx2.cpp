#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes_avx2.h"
#include "backend/cpu/loops_attention.h"
#include "backend/cpu/loops_math.h"
#include "backend/cpu/loops_multiply.h"
#include "backend/cpu/loops_partials.h"
#include "backend/cpu/loops_rounded.h"
#include "backend/cpu/loops_table.h"

namespace talon::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kTable = table_of("avx2");
  return kTable;
}

}  // namespace talon::cpu

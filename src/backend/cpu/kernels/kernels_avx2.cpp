#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes_avx2.h"
#include "backend/cpu/kernels/loops_attention.h"
#include "backend/cpu/kernels/loops_attention_pairs.h"
#include "backend/cpu/kernels/loops_math.h"
#include "backend/cpu/kernels/loops_multiply.h"
#include "backend/cpu/kernels/loops_partials.h"
#include "backend/cpu/kernels/loops_recurrent.h"
#include "backend/cpu/kernels/loops_rounded.h"
#include "backend/cpu/kernels/loops_table.h"
#include "backend/cpu/kernels/products_avx2.h"

namespace talon::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kTable = table_of("avx2");
  return kTable;
}

}  // namespace talon::cpu

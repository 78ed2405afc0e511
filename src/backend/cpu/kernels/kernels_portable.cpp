#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes_portable.h"
#include "backend/cpu/kernels/loops_attention.h"
#include "backend/cpu/kernels/loops_attention_pairs.h"
#include "backend/cpu/kernels/loops_math.h"
#include "backend/cpu/kernels/loops_multiply.h"
#include "backend/cpu/kernels/loops_partials.h"
#include "backend/cpu/kernels/loops_products.h"
#include "backend/cpu/kernels/loops_recurrent.h"
#include "backend/cpu/kernels/loops_rounded.h"
#include "backend/cpu/kernels/loops_table.h"

namespace talon::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kTable = table_of("portable");
  return kTable;
}

}  // namespace talon::cpu

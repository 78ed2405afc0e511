#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes_portable.h"
#include "backend/cpu/loops_attention.h"
#include "backend/cpu/loops_math.h"
#include "backend/cpu/loops_multiply.h"
#include "backend/cpu/loops_partials.h"
#include "backend/cpu/loops_rounded.h"
#include "backend/cpu/loops_table.h"

namespace talon::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kTable = table_of("portable");
  return kTable;
}

}  // namespace talon::cpu

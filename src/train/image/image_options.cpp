#include "train/image/image_options.h"

namespace talon {

Json settings_of(const ImageSchedule& schedule) {
  return {{"epochs", schedule.epochs},
          {"count", schedule.count},
          {"batch", schedule.batch},
          {"rate", schedule.rate},
          {"warmup", schedule.warmup},
          {"clip", schedule.clip},
          {"weight_decay", schedule.weight_decay},
          {"seed", schedule.seed},
          {"precision", schedule.precision}};
}

}  // namespace talon

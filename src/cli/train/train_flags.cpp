#include "cli/train/train_flags.h"

namespace talon {

CLI::Option* add_question_flags(CLI::App& app, QuestionOptions& options,
                                const QuestionFlags& flags) {
  CLI::Option* questions = app.add_option("--questions", options.file, flags.help);
  questions->type_name("FILE")->group(flags.group);
  add_int(app, "--limit", options.limit, 0, kMany,
          "of the questions, evenly spread over the file, 0 for all")
      ->group(flags.group);
  add_int(app, "-n,--max-new", options.max_new, flags.least_new, 1 << 20,
          "most tokens of an answer")
      ->group(flags.group);
  return questions;
}

void add_out_flag(CLI::App& app, std::string& out, const std::string& help) {
  app.add_option("-o,--out", out, help)->type_name("FOLDER")->required();
}

}  // namespace talon

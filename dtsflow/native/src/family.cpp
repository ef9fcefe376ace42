#include "family.hpp"

namespace dtsflow {

const Form *form_of(StepKind kind) {
  switch (kind) {
    default:
      return nullptr;
  }
}

}  // namespace dtsflow

/* vector.cpp: tests/cpp/vector.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main vector_main
#include "../../cpp/vector.cpp"
